package traffic

import (
	"bytes"
	"net/http"
	"strings"
)

// Relayed gives the URLs of transfers in answers of the Automation API the host by which the client reached this server: a relay may
// lie between. A vCenter has its own name there, by which all clients must reach it.
func Relayed(address string, next http.Handler) http.Handler {
	own := []byte("https://" + address + "/")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		automation := strings.HasPrefix(r.URL.Path, "/rest/") || strings.HasPrefix(r.URL.Path, "/api/")
		if !automation || r.Host == "" || r.Host == address {
			next.ServeHTTP(w, r)
			return
		}
		out := NewAnswer()
		next.ServeHTTP(out, r)
		body := bytes.ReplaceAll(out.Body.Bytes(), own, []byte("https://"+r.Host+"/"))
		out.Body.Reset()
		_, _ = out.Write(body)
		out.Send(w)
	})
}
