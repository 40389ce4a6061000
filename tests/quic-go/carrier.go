// The network of this end: datagrams on loopback with a name in front, to and from a process that carries them in PDUs.

package main

import (
	"errors"
	"net"
	"time"
)

// carrier is a net.PacketConn whose addresses are names.
type carrier struct {
	socket *net.UDPConn
	own    Name
}

func dialCarrier(address string, own Name) (*carrier, error) {
	resolved, err := net.ResolveUDPAddr("udp", address)
	if err != nil {
		return nil, err
	}
	socket, err := net.DialUDP("udp", nil, resolved)
	if err != nil {
		return nil, err
	}
	// Nothing: so the other side knows where we are, before there is anything to say.
	_, err = socket.Write(nil)
	return &carrier{socket, own}, err
}

func (it *carrier) ReadFrom(buffer []byte) (int, net.Addr, error) {
	framed := make([]byte, 1<<16)
	for {
		length, err := it.socket.Read(framed)
		if err != nil {
			return 0, nil, err
		}
		if length > len(Name{}) {
			return copy(buffer, framed[len(Name{}):length]), Name(framed[:len(Name{})]), nil
		}
	}
}

func (it *carrier) WriteTo(datagram []byte, to net.Addr) (int, error) {
	name, isName := to.(Name)
	if !isName {
		return 0, errors.New("not a name: " + to.String())
	}
	if _, err := it.socket.Write(append(name[:], datagram...)); err != nil {
		return 0, err
	}
	return len(datagram), nil
}

func (it *carrier) Close() error                        { return it.socket.Close() }
func (it *carrier) LocalAddr() net.Addr                 { return it.own }
func (it *carrier) SetDeadline(at time.Time) error      { return it.socket.SetDeadline(at) }
func (it *carrier) SetReadDeadline(at time.Time) error  { return it.socket.SetReadDeadline(at) }
func (it *carrier) SetWriteDeadline(at time.Time) error { return it.socket.SetWriteDeadline(at) }
