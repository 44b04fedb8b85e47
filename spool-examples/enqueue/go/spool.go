// Package spool stores tasks for spoold or uWSGI. Copy this file: it needs Go 1.18 or later, and nothing else.
//
//	path, err := spool.Spool([]spool.Pair{{"to", "joe"}}, "/var/spool/app",
//		spool.Options{At: 1700000000, Priority: "5", Body: []byte("hello")})
package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync/atomic"
	"time"
)

// Limit in bytes: the size of the block and each length in it are 16-bit numbers.
const Limit = 0xFFFF

// Pair is one entry of the dictionary. Both may contain any bytes.
type Pair struct{ Key, Value string }

// Options of a task; the zero value is due at once, without a body, and synced to disk.
type Options struct {
	At       float64 // do not run before this time: epoch seconds, may have a fraction; 0: at once
	Priority string  // the priority directory, digits only; lower runs first if the daemon has spooler-ordered
	Body     []byte  // the body, of any size
	NoSync   bool    // do not wait until the task is on disk, so it may be lost in a power failure
}

var (
	counter uint64
	digits  = regexp.MustCompile(`^[0-9]+$`)
	random  = rand.New(rand.NewSource(time.Now().UnixNano())).Int31() // one per process; the counter makes names unique
)

// Spool stores one task in the spool directory, which has to exist, and returns the path of its file.
func Spool(dictionary []Pair, spooler string, options Options) (string, error) {
	packet, err := Encode(dictionary, options.At, options.Priority)
	if err != nil {
		return "", err
	}
	directory := filepath.Join(spooler, options.Priority)
	if options.Priority != "" {
		if err := os.Mkdir(directory, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", err
		}
	}
	host, err := os.Hostname()
	if err != nil {
		return "", err
	}
	now := time.Now()
	name := fmt.Sprintf("uwsgi_spoolfile_on_%s_%d_%d_%d_%d_%d", host, os.Getpid(), atomic.AddUint64(&counter, 1),
		random, now.Unix(), now.Nanosecond()/1000)
	// No daemon runs a file whose name begins with a dot; the rename publishes only a complete file.
	hidden, path := filepath.Join(directory, "."+name), filepath.Join(directory, name)
	if err = write(hidden, packet, options); err == nil {
		err = os.Rename(hidden, path)
	}
	if err != nil {
		os.Remove(hidden)
		return "", err
	}
	if options.NoSync {
		return path, nil
	}
	for _, each := range []string{directory, spooler} { // syncs the rename, and a new priority directory
		if err := syncDirectory(each); err != nil {
			return "", err
		}
	}
	return path, nil
}

func write(hidden string, packet []byte, options Options) error {
	file, err := os.OpenFile(hidden, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	for _, part := range [][]byte{packet, options.Body} {
		if _, err := file.Write(part); err != nil {
			return err
		}
	}
	if options.At > 0 { // after the last write, which sets the mtime to now
		at := time.Unix(int64(options.At), 0)
		if err := os.Chtimes(hidden, at, at); err != nil {
			return err
		}
	}
	if options.NoSync {
		return nil
	}
	return file.Sync()
}

func syncDirectory(path string) error {
	directory, err := os.Open(path)
	if err != nil {
		return err
	}
	defer directory.Close()
	return directory.Sync()
}

// Encode makes the packet: u8 17, u16 size, u8 0, then pairs of ( u16 length, key, u16 length, value ), little endian.
func Encode(dictionary []Pair, at float64, priority string) ([]byte, error) {
	for _, pair := range dictionary {
		if pair.Key == "at" || pair.Key == "priority" || pair.Key == "body" {
			return nil, fmt.Errorf("the key %q is not for the dictionary: give it as an option", pair.Key)
		}
	}
	pairs := append([]Pair{}, dictionary...)
	if math.IsNaN(at) || math.IsInf(at, 0) || at < 0 {
		return nil, fmt.Errorf("at must be epoch seconds, got %v", at)
	} else if at > 0 {
		pairs = append(pairs, Pair{"at", strconv.FormatFloat(at, 'f', -1, 64)})
	}
	if priority != "" {
		if !digits.MatchString(priority) {
			return nil, fmt.Errorf("priority must be digits, got %q", priority)
		}
		pairs = append(pairs, Pair{"priority", priority})
	}
	packet := []byte{17, 0, 0, 0}
	for _, pair := range pairs {
		if pair.Key == "" {
			return nil, errors.New("a key is empty")
		}
		if len(pair.Key) > Limit {
			return nil, fmt.Errorf("the key %.40q has %d bytes, the limit is %d", pair.Key, len(pair.Key), Limit)
		}
		if len(pair.Value) > Limit {
			return nil, fmt.Errorf("the value of %.40q has %d bytes, the limit is %d: use the body", pair.Key, len(pair.Value), Limit)
		}
		for _, text := range []string{pair.Key, pair.Value} {
			packet = append(packet, byte(len(text)), byte(len(text)>>8))
			packet = append(packet, text...)
		}
	}
	if size := len(packet) - 4; size > Limit {
		return nil, fmt.Errorf("the keys and values take %d bytes, the limit is %d: use the body", size, Limit)
	}
	binary.LittleEndian.PutUint16(packet[1:], uint16(len(packet)-4))
	return packet, nil
}
