// Package conformance runs the suite that Dapr has for its own state stores over the socket of statestore-dapr.
package conformance

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/dapr/components-contrib/metadata"
	"github.com/dapr/components-contrib/state"
	suite "github.com/dapr/components-contrib/tests/conformance/state"
	"github.com/dapr/components-contrib/tests/conformance/utils"
	pluggable "github.com/dapr/dapr/pkg/components/state"
	"github.com/dapr/kit/logger"
)

// What daprd reaches through the socket.
type component interface {
	state.Store
	state.TransactionalStore
	state.TransactionalStoreMultiMaxSize
	Ping() error
}

// The component as the suite wants it.
type store struct {
	component
	hidden []state.Feature
}

func (s store) Init(ctx context.Context, of state.Metadata) error {
	of.Base = metadata.Base{Name: "conformance", Properties: of.Properties}
	return s.component.Init(ctx, of)
}

func (s store) Features() []state.Feature {
	return slices.DeleteFunc(slices.Clone(s.component.Features()), func(feature state.Feature) bool {
		return slices.Contains(s.hidden, feature)
	})
}

func (s store) Ping(context.Context) error {
	return s.component.Ping()
}

// A pluggable component answers a bulk with one error, and the suite wants one for each item.
func (s store) BulkSet(ctx context.Context, items []state.SetRequest, opts state.BulkStoreOpts) error {
	return state.DoBulkSetDelete(ctx, items, s.Set, opts)
}

func (s store) BulkDelete(ctx context.Context, items []state.DeleteRequest, opts state.BulkStoreOpts) error {
	return state.DoBulkSetDelete(ctx, items, s.Delete, opts)
}

func TestWithTTL(t *testing.T) {
	run(t, "transaction", "etag", "first-write", "ttl", "actorStateStore")
}

// Where the suite looks at `ttlExpireTime`, it does so for stores that do not claim to have the feature.
func TestWithoutTTL(t *testing.T) {
	run(t, "transaction", "etag", "first-write", "actorStateStore")
}

// A store with the plain protocol, where ETags are compared and transactions made by the client. It does not tell when keys expire.
func TestPlain(t *testing.T) {
	check(t, withoutExtensions(t, server(t)), "transaction", "etag", "first-write", "ttl", "actorStateStore")
}

func run(t *testing.T, operations ...string) {
	check(t, server(t), operations...)
}

// Starts a store, and gives its address.
func server(t *testing.T) string {
	return strings.TrimPrefix(start(t, "STATESTORED", "--storage", "memory", "--listen", "tcp://127.0.0.1:0"), "tcp://")
}

// The address at which a store does not understand what its extensions are asked for.
func withoutExtensions(t *testing.T, address string) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", address)
			if err != nil {
				_ = near.Close()
				continue
			}
			go func() {
				_, _ = io.Copy(near, far)
				_ = near.Close()
			}()
			go func() {
				defer far.Close()
				sent := make([]byte, 1<<16)
				for {
					count, err := near.Read(sent)
					changed := bytes.ReplaceAll(sent[:count], []byte("$4\r\nCAPS\r\n"), []byte("$4\r\nNONE\r\n"))
					if _, failed := far.Write(changed); err != nil || failed != nil {
						return
					}
				}
			}()
		}
	}()
	return listener.Addr().String()
}

func check(t *testing.T, address string, operations ...string) {
	path := filepath.Join(t.TempDir(), "statestore.sock")
	if listening := start(t, "STATESTORE_DAPR", "--socket", path); listening != path {
		t.Fatalf("listens on %q", listening)
	}
	of := store{component: pluggable.NewGRPCStateStore(logger.NewLogger("conformance"), path)}
	if !slices.Contains(operations, "ttl") {
		of.hidden = []state.Feature{state.FeatureTTL}
	}
	t.Cleanup(func() { _ = of.Close() })
	config := suite.TestConfig{
		CommonConfig: utils.CommonConfig{
			ComponentType: "state",
			ComponentName: "statestore",
			Operations:    utils.NewStringSet(operations...),
		},
		BadEtag: "1:1:StateStore",
	}
	suite.ConformanceTests(t, map[string]string{"url": "mqtt://" + address}, of, config)
}

// Starts the program that a variable names, and gives what it says that it listens on. It is stopped at the end of the test.
func start(t *testing.T, variable string, arguments ...string) string {
	program := os.Getenv(variable)
	if program == "" {
		t.Fatalf("%s does not say where the program is", variable)
	}
	command := exec.Command(program, arguments...)
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		if err := command.Wait(); err != nil {
			t.Errorf("%s: %v", program, err)
		}
	})
	lines := bufio.NewReader(output)
	line, err := lines.ReadString('\n')
	if err != nil {
		t.Fatalf("%s does not begin: %v", program, err)
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	listening, found := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if !found {
		t.Fatalf("%s says %q", program, line)
	}
	return listening
}
