// Names, metadata, and the statement by which a server answers for a name: sections 1 and 2 of the specification.

package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"math/big"
	"time"
	"unicode/utf8"
)

// Name is the SHA-256 of metadata. To QUIC it is an address.
type Name [32]byte

var nameText = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

func (name Name) String() string { return nameText.EncodeToString(name[:]) }

// Network is what net.Addr asks for.
func (name Name) Network() string { return "rhumb" }

func parseName(text string) (Name, error) {
	decoded, err := nameText.DecodeString(text)
	if err != nil || len(decoded) != len(Name{}) || nameText.EncodeToString(decoded) != text {
		return Name{}, errors.New("not a name: " + text)
	}
	return Name(decoded), nil
}

const (
	keyP256    = 1
	keyEd25519 = 2
)

// Metadata is what a name is the hash of, as far as an end looks at it.
type Metadata struct {
	name      Name
	algorithm byte
	key       []byte
}

var errMetadata = errors.New("malformed metadata")

func parseMetadata(encoded []byte) (Metadata, error) {
	rest := reader{left: encoded}
	head := rest.take(5)
	if rest.failed || !bytes.Equal(head[:3], []byte("RM\x01")) || head[3] < 1 || head[3] > 5 {
		return Metadata{}, errMetadata
	}
	lengths := map[byte]int{keyP256: 33, keyEd25519: ed25519.PublicKeySize}
	length, isKnown := lengths[head[4]]
	key := rest.take(length)
	rest.take(8)
	count := rest.integer(1)
	if !isKnown || rest.failed || count > 8 || (head[4] == keyP256 && key[0] != 2 && key[0] != 3) {
		return Metadata{}, errMetadata
	}
	var before []byte
	for range count {
		attribute := rest.take(rest.integer(1))
		value := rest.take(rest.integer(1))
		isOrdered := before == nil || bytes.Compare(before, attribute) < 0
		if !isAttribute(attribute) || !isOrdered || len(value) > 64 || !utf8.Valid(value) {
			return Metadata{}, errMetadata
		}
		before = attribute
	}
	if !rest.isAtEnd() {
		return Metadata{}, errMetadata
	}
	return Metadata{sha256.Sum256(encoded), head[4], key}, nil
}

func isAttribute(key []byte) bool {
	for _, letter := range key {
		if (letter < 'a' || letter > 'z') && (letter < '0' || letter > '9') && letter != '-' {
			return false
		}
	}
	return len(key) >= 1 && len(key) <= 32
}

// verify checks a signature of the certificates of section 2.
func (metadata Metadata) verify(message, signature []byte) bool {
	if metadata.algorithm == keyEd25519 {
		return ed25519.Verify(metadata.key, message, signature)
	}
	x, y := elliptic.UnmarshalCompressed(elliptic.P256(), metadata.key)
	if x == nil {
		return false
	}
	key := ecdsa.PublicKey{Curve: elliptic.P256(), X: x, Y: y}
	digest := sha256.Sum256(message)
	r, s := new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:])
	return ecdsa.Verify(&key, digest[:], r, s)
}

const (
	serviceLength = 156
	clockSkew     = 60 * time.Second
)

// AdCert is the word of a name's owner that a server answers for it, with the owner's metadata.
type AdCert struct {
	owner         Metadata
	certificate   []byte
	issuer        Name
	server        Name
	begins, until time.Time
}

var errAdCert = errors.New("malformed AdCert")

// parseAdCert reads a list of one metadata and a list of one certificate.
func parseAdCert(encoded []byte) (AdCert, error) {
	rest := reader{left: encoded}
	if rest.integer(1) != 1 {
		return AdCert{}, errAdCert
	}
	owner, err := parseMetadata(rest.take(rest.integer(2)))
	if err != nil {
		return AdCert{}, err
	}
	count := rest.integer(1)
	certificate := rest.take(serviceLength)
	if count != 1 || !rest.isAtEnd() {
		return AdCert{}, errAdCert
	}
	// Version 1, type service, a scope that a service may have, and the reserved byte.
	scope := certificate[2]
	if certificate[0] != 1 || certificate[1] != 5 || (scope != 0 && scope != 3) || certificate[3] != 0 {
		return AdCert{}, errAdCert
	}
	begins := binary.BigEndian.Uint64(certificate[12:])
	until := binary.BigEndian.Uint64(certificate[20:])
	if until < begins || until > 1<<40 {
		return AdCert{}, errAdCert
	}
	return AdCert{
		owner, certificate, Name(certificate[28:60]), Name(certificate[60:92]),
		time.Unix(int64(begins), 0), time.Unix(int64(until), 0),
	}, nil
}

// check says whether the server answers for the owner now.
func (word AdCert) check(owner, server Name, now time.Time) error {
	if word.owner.name != owner || word.issuer != owner || word.server != server {
		return errors.New("the AdCert is about other names")
	}
	if now.Before(word.begins.Add(-clockSkew)) || now.After(word.until.Add(clockSkew)) {
		return errors.New("the AdCert does not hold now")
	}
	signed := append([]byte("rhumb certificate v1\x00"), word.certificate[:serviceLength-64]...)
	if !word.owner.verify(signed, word.certificate[serviceLength-64:]) {
		return errors.New("the AdCert's signature is not its owner's")
	}
	return nil
}

// reader takes bytes from the front; once they do not suffice it has failed, and gives zeros.
type reader struct {
	left   []byte
	failed bool
}

func (rest *reader) take(length int) []byte {
	if length > len(rest.left) {
		rest.failed, rest.left = true, nil
		return make([]byte, length)
	}
	taken := rest.left[:length]
	rest.left = rest.left[length:]
	return taken
}

func (rest *reader) integer(length int) int {
	value := 0
	for _, octet := range rest.take(length) {
		value = value<<8 | int(octet)
	}
	return value
}

func (rest *reader) isAtEnd() bool { return !rest.failed && len(rest.left) == 0 }
