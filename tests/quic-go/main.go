// An end of connections (section 9.2 of docs/spec.md) that is none of Rhumb: quic-go, on the TLS of
// Go's library. It shows that the specification is enough for a stock stack to be one.
//
// Flow: 1. the identity is read, and the process that carries PDUs is told where this end is;
// 2. `connect` opens a connection and uses the ports that it is told, `listen` answers others;
// 3. what happens is printed, an object a line. It ends with its standard input, or with its work.

package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
)

const (
	protocol = "rhumb-end/1"
	patience = 15 * time.Second
	// Of a stream: nothing is offered on that port.
	portClosed = 1
	// Where the answers to our datagrams go.
	ownPort    = 4000
	longLength = 200_000
)

type end struct {
	identity Identity
	network  *carrier
	protocol string
	groups   []tls.CurveID
	// Whether it shows a certificate.
	isNamed bool
}

func main() {
	os.Setenv("QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING", "true")
	identity := flag.String("identity", "", "file with metadata and key")
	address := flag.String("carrier", "", "UDP address of the process that carries PDUs")
	adCert := flag.String("ad-cert", "", "the owner's word for the name, in hexadecimal")
	groups := flag.String("groups", "", "the key exchanges to offer, instead of all")
	spoken := flag.String("protocol", protocol, "what to speak")
	isNamed := flag.Bool("named", true, "show a certificate")
	peer := flag.String("connect", "", "connect to this name, instead of listening")
	stream := flag.Int("stream", 0, "the port of streams to use or to offer")
	datagram := flag.Int("datagram", 0, "the port of datagrams to use or to offer")
	flag.Parse()
	go endWithStandardInput()

	word, err := hex.DecodeString(*adCert)
	failOn(err)
	shown, err := readIdentity(*identity, word)
	failOn(err)
	network, err := dialCarrier(*address, shown.name)
	failOn(err)
	it := end{shown, network, *spoken, curves(*groups), *isNamed}
	ports := ports{uint16(*stream), uint16(*datagram)}
	if *peer == "" {
		failOn(it.listen(ports))
	}
	name, err := parseName(*peer)
	failOn(err)
	failOn(it.connect(name, ports))
}

func endWithStandardInput() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

func failOn(err error) {
	if err == nil {
		return
	}
	what := map[string]any{"failed": err.Error()}
	var transport *quic.TransportError
	if errors.As(err, &transport) {
		what["code"], what["remote"] = uint64(transport.ErrorCode), transport.Remote
	}
	say(what)
	os.Exit(1)
}

var printing sync.Mutex

func say(what map[string]any) {
	printing.Lock()
	defer printing.Unlock()
	line, _ := json.Marshal(what)
	fmt.Println(string(line))
}

// curves are the key exchanges of these names, or those of the specification.
func curves(text string) []tls.CurveID {
	if text == "" {
		return []tls.CurveID{tls.X25519MLKEM768, tls.X25519, tls.CurveP256}
	}
	var chosen []tls.CurveID
	for _, curve := range []tls.CurveID{tls.X25519MLKEM768, tls.X25519, tls.CurveP256, tls.CurveP384} {
		if slices.Contains(strings.Split(text, ","), curve.String()) {
			chosen = append(chosen, curve)
		}
	}
	return chosen
}

// tls is what both sides have in common: `expected` is the name that the other end has to prove.
func (it *end) tls(expected Name, proven func(Proof)) *tls.Config {
	config := &tls.Config{
		MinVersion:             tls.VersionTLS13,
		NextProtos:             []string{it.protocol},
		CurvePreferences:       it.groups,
		SessionTicketsDisabled: true,
		// The library knows authorities, and no names: what it leaves out is done in its place.
		InsecureSkipVerify: true,
		ClientAuth:         tls.RequireAnyClientCert,
		// An address is not sent, so there is no server name indication.
		ServerName: "::1",
		VerifyPeerCertificate: func(shown [][]byte, _ [][]*x509.Certificate) error {
			proof, err := prove(shown, expected, it.identity.name, time.Now())
			if err != nil {
				say(map[string]any{"refused": err.Error(), "peer": expected.String()})
				return err
			}
			proven(proof)
			return nil
		},
	}
	if it.isNamed {
		config.Certificates = []tls.Certificate{it.identity.certificate}
	}
	return config
}

// quicConfig asks for no more than the least that QUIC needs: what is longer than a path carries goes in
// halves, and probes of a path must not, which the carrier cannot tell from others.
func quicConfig() *quic.Config {
	return &quic.Config{
		EnableDatagrams:         true,
		InitialPacketSize:       1200,
		DisablePathMTUDiscovery: true,
		HandshakeIdleTimeout:    10 * time.Second,
		MaxIdleTimeout:          30 * time.Second,
		KeepAlivePeriod:         9 * time.Second,
	}
}

func (it *end) connect(peer Name, ports ports) error {
	var proof Proof
	transport := quic.Transport{Conn: it.network}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	connection, err := transport.Dial(ctx, peer, it.tls(peer, func(given Proof) { proof = given }), quicConfig())
	if err != nil {
		return err
	}
	endWithProof(connection, proof)
	if err := ports.use(ctx, connection); err != nil {
		return err
	}
	sayConnected(connection, peer, proof)
	return connection.CloseWithError(0, "")
}

// endWithProof ends a connection when the other end answers for its name no longer.
func endWithProof(connection *quic.Conn, proof Proof) {
	if !proof.until.IsZero() {
		time.AfterFunc(time.Until(proof.until), func() { connection.CloseWithError(0, "") })
	}
}

func sayConnected(connection *quic.Conn, peer Name, proof Proof) {
	state := connection.ConnectionState()
	say(map[string]any{
		"connected": peer.String(), "server": proof.server.String(), "group": state.TLS.CurveID.String(),
		"suite": tls.CipherSuiteName(state.TLS.CipherSuite),
	})
}

func (it *end) listen(ports ports) error {
	var proofs sync.Map
	config := it.tls(Name{}, nil)
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		// The source of the PDUs is the name to prove.
		peer := hello.Conn.RemoteAddr()
		name, isName := peer.(Name)
		if !isName {
			return nil, errors.New("not a name: " + peer.String())
		}
		return it.tls(name, func(proof Proof) { proofs.Store(name, proof) }), nil
	}
	transport := quic.Transport{Conn: it.network}
	listener, err := transport.Listen(config, quicConfig())
	if err != nil {
		return err
	}
	say(map[string]any{"listening": it.identity.name.String()})
	for {
		connection, err := listener.Accept(context.Background())
		if err != nil {
			return err
		}
		name := connection.RemoteAddr().(Name)
		proof, _ := proofs.LoadAndDelete(name)
		endWithProof(connection, proof.(Proof))
		sayConnected(connection, name, proof.(Proof))
		go ports.serveStreams(connection)
		go ports.serveDatagrams(connection)
	}
}

// ports are those that are used or offered; 0 is none.
type ports struct{ stream, datagram uint16 }

// use tries what a program would do, and says what came of it.
func (it ports) use(ctx context.Context, connection *quic.Conn) error {
	if it.stream != 0 {
		answer, err := echoed(ctx, connection, it.stream, []byte("good day"))
		if err != nil {
			return err
		}
		say(map[string]any{"stream": string(answer)})
		long := make([]byte, longLength)
		_, _ = rand.Read(long)
		answer, err = echoed(ctx, connection, it.stream, long)
		if err != nil {
			return err
		}
		say(map[string]any{"bytes": len(answer), "intact": bytes.Equal(answer, long)})
		var refused *quic.StreamError
		_, err = echoed(ctx, connection, it.stream+1, []byte("nobody"))
		if !errors.As(err, &refused) {
			return fmt.Errorf("a closed port: %w", err)
		}
		say(map[string]any{"closed": refused.ErrorCode})
	}
	if it.datagram == 0 {
		return nil
	}
	return it.ask(ctx, connection)
}

// echoed is what comes back on a stream to a port.
func echoed(ctx context.Context, connection *quic.Conn, port uint16, said []byte) ([]byte, error) {
	stream, err := connection.OpenStreamSync(ctx)
	if err != nil {
		return nil, err
	}
	written := make(chan error, 1)
	go func() {
		_, err := stream.Write(append(binary.BigEndian.AppendUint16(nil, port), said...))
		written <- errors.Join(err, stream.Close())
	}()
	stream.SetReadDeadline(time.Now().Add(patience))
	answer, err := io.ReadAll(stream)
	if err != nil {
		return nil, err
	}
	return answer, <-written
}

// ask sends a datagram until it is answered: any may be lost.
func (it ports) ask(ctx context.Context, connection *quic.Conn) error {
	datagram := binary.BigEndian.AppendUint16(nil, it.datagram)
	datagram = append(binary.BigEndian.AppendUint16(datagram, ownPort), "well?"...)
	for ctx.Err() == nil {
		if err := connection.SendDatagram(datagram); err != nil {
			return err
		}
		soon, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		answer, err := connection.ReceiveDatagram(soon)
		cancel()
		if err == nil && len(answer) >= 4 {
			to, from := binary.BigEndian.Uint16(answer), binary.BigEndian.Uint16(answer[2:])
			say(map[string]any{"datagram": string(answer[4:]), "to": to, "from": from})
			return nil
		}
		if connection.Context().Err() != nil {
			return context.Cause(connection.Context())
		}
	}
	return errors.New("no datagram came back")
}

func (it ports) serveStreams(connection *quic.Conn) {
	for {
		stream, err := connection.AcceptStream(context.Background())
		if err != nil {
			return
		}
		go func() {
			var port [2]byte
			if _, err := io.ReadFull(stream, port[:]); err != nil || binary.BigEndian.Uint16(port[:]) != it.stream {
				stream.CancelRead(portClosed)
				stream.CancelWrite(portClosed)
				return
			}
			_, _ = io.Copy(stream, stream)
			_ = stream.Close()
		}()
	}
}

func (it ports) serveDatagrams(connection *quic.Conn) {
	for {
		datagram, err := connection.ReceiveDatagram(context.Background())
		if err != nil {
			return
		}
		// Without a port of its own, its sender takes no answer.
		if len(datagram) >= 4 && binary.BigEndian.Uint16(datagram) == it.datagram && !bytes.Equal(datagram[2:4], []byte{0, 0}) {
			answer := append(append(append([]byte{}, datagram[2:4]...), datagram[:2]...), datagram[4:]...)
			_ = connection.SendDatagram(answer)
		}
	}
}

var _ net.PacketConn = (*carrier)(nil)
