// Kubelet answers the one question that Cluster API asks a node's kubelet: forward a port of a pod.
//
// Guests of the simulated site run etcd and kube-apiserver as plain processes of the node's own address, so every
// pod's port is that port of --target-host. SPDY/3.1, which the API server speaks here, has no Rust server; that is
// the only reason for this program.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/portforward"
)

// Longer than any forward of Cluster API, short enough to lose what a dead API server left.
const idle = 10 * time.Minute

type forwarder struct{ host string }

// PortForward copies between the stream and the port until both directions have ended.
func (f forwarder) PortForward(ctx context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(f.host, strconv.Itoa(int(port))))
	if err != nil {
		return err
	}
	defer conn.Close()

	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.Copy(conn, stream)
		_ = conn.(*net.TCPConn).CloseWrite()
	})
	both.Go(func() {
		_, _ = io.Copy(stream, conn)
		_ = stream.Close()
	})
	both.Wait()
	return nil
}

// routes serves what the API server calls; everything else a kubelet has is answered 404.
func routes(target string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/portForward/{namespace}/{pod}", func(w http.ResponseWriter, r *http.Request) {
		if !acceptsAny(r.Header.Values("Accept")) {
			http.Error(w, "406: Not Acceptable", http.StatusNotAcceptable)
			return
		}
		name := r.PathValue("pod") + "_" + r.PathValue("namespace")
		options, err := portforward.NewV4Options(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		portforward.ServePortForward(w, r, forwarder{target}, name, "", options, idle, 30*time.Second, portforward.SupportedProtocols)
	})
	return mux
}

// acceptsAny tells whether Accept headers have no condition. A kubelet's route of port-forwards produces no media type, so go-restful
// refuses every other header there.
func acceptsAny(accept []string) bool {
	if len(accept) == 0 {
		return true
	}
	for media := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		media, _, _ = strings.Cut(media, ";")
		if strings.TrimSpace(media) == "*/*" {
			return true
		}
	}
	return false
}

func main() {
	listen := flag.String("listen", "", "address and port to serve on")
	cert := flag.String("tlscert", "", "file with the serving certificate")
	key := flag.String("tlskey", "", "file with the serving certificate's key")
	target := flag.String("target-host", "", "address whose ports stand for the pods' ports")
	flag.Parse()
	if *listen == "" || *cert == "" || *key == "" || *target == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	// HTTP/2 has no Upgrade; the API server's forward needs HTTP/1.1.
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	server := &http.Server{Addr: *listen, Handler: routes(*target), Protocols: &protocols, ReadHeaderTimeout: 10 * time.Second}
	fmt.Fprintln(os.Stderr, server.ListenAndServeTLS(*cert, *key))
	os.Exit(1)
}
