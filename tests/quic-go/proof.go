// How the two ends prove their names in TLS: sections 4.3 and 9.2 of the specification.

package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"strings"
	"time"
)

var (
	metadataExtension = asn1.ObjectIdentifier{2, 25, 74088145}
	adCertExtension   = asn1.ObjectIdentifier{2, 25, 74088147}
)

// Identity is what this end shows, and the name that it has by that.
type Identity struct {
	name        Name
	certificate tls.Certificate
}

// readIdentity reads a line of metadata in hexadecimal and a key in PEM, as the client in Python
// writes them. What it shows is what stands there, be it right or wrong.
func readIdentity(path string, adCert []byte) (Identity, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Identity{}, err
	}
	line, rest, _ := strings.Cut(string(text), "\n")
	encoded, err := hex.DecodeString(line)
	if err != nil {
		return Identity{}, err
	}
	metadata, err := parseMetadata(encoded)
	if err != nil {
		return Identity{}, err
	}
	block, _ := pem.Decode([]byte(rest))
	if block == nil {
		return Identity{}, errors.New("no key in " + path)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return Identity{}, err
	}
	name, extensions := metadata.name, []pkix.Extension{{Id: metadataExtension, Value: encoded}}
	if len(adCert) > 0 {
		word, err := parseAdCert(adCert)
		if err != nil {
			return Identity{}, err
		}
		name = word.owner.name
		extensions = append(extensions, pkix.Extension{Id: adCertExtension, Value: adCert})
	}
	der, err := selfSigned(key.(crypto.Signer), extensions)
	return Identity{name, tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}}, err
}

func selfSigned(key crypto.Signer, extensions []pkix.Extension) ([]byte, error) {
	template := x509.Certificate{
		SerialNumber:    big.NewInt(1),
		NotBefore:       time.Unix(0, 0),
		NotAfter:        time.Now().AddDate(1, 0, 0),
		ExtraExtensions: extensions,
	}
	return x509.CreateCertificate(rand.Reader, &template, &template, key.Public(), key)
}

// Proof is what the other end has shown: its own name, or the word of the owner of the name for it.
type Proof struct {
	server Name
	// When it answers for the name no longer; never, if that is its own.
	until time.Time
}

// prove checks that whoever shows these certificates is `expected`. TLS has it that he holds the key.
func prove(shown [][]byte, expected, own Name, now time.Time) (Proof, error) {
	certificate, err := x509.ParseCertificate(shown[0])
	if err != nil {
		return Proof{}, err
	}
	encoded, err := extension(certificate, metadataExtension)
	if err != nil {
		return Proof{}, err
	}
	metadata, err := parseMetadata(encoded)
	if err != nil {
		return Proof{}, err
	}
	key, isEcdsa := certificate.PublicKey.(*ecdsa.PublicKey)
	if !isEcdsa || metadata.algorithm != keyP256 || key.Curve != elliptic.P256() ||
		string(elliptic.MarshalCompressed(key.Curve, key.X, key.Y)) != string(metadata.key) {
		return Proof{}, errors.New("the certificate's key is not that of its metadata")
	}
	if metadata.name == own {
		return Proof{}, errors.New("it is our own name")
	}
	if metadata.name == expected {
		return Proof{server: metadata.name}, nil
	}
	encoded, err = extension(certificate, adCertExtension)
	if err != nil {
		return Proof{}, fmt.Errorf("expected %s, found %s", expected, metadata.name)
	}
	word, err := parseAdCert(encoded)
	if err != nil {
		return Proof{}, err
	}
	if err := word.check(expected, metadata.name, now); err != nil {
		return Proof{}, err
	}
	return Proof{metadata.name, word.until.Add(clockSkew)}, nil
}

// extension finds the one extension of that identifier, which is not critical.
func extension(certificate *x509.Certificate, id asn1.ObjectIdentifier) ([]byte, error) {
	var found *pkix.Extension
	for index, candidate := range certificate.Extensions {
		if candidate.Id.Equal(id) {
			if found != nil || candidate.Critical {
				return nil, fmt.Errorf("extension %s is critical, or there are two", id)
			}
			found = &certificate.Extensions[index]
		}
	}
	if found == nil {
		return nil, fmt.Errorf("the certificate has no extension %s", id)
	}
	return found.Value, nil
}
