package traffic

import (
	"bytes"
	"net/http"
	"strings"
)

// Named puts another address in place of the server's own into URLs in answers of the Automation API. A vCenter has its name there,
// whatever name the client used.
func Named(own, name string, next http.Handler) http.Handler {
	from, to := []byte("https://"+own+"/"), []byte("https://"+name+"/")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/rest/") && !strings.HasPrefix(r.URL.Path, "/api/") {
			next.ServeHTTP(w, r)
			return
		}
		out := NewAnswer()
		next.ServeHTTP(out, r)
		body := bytes.ReplaceAll(out.Body.Bytes(), from, to)
		out.Body.Reset()
		_, _ = out.Write(body)
		out.Send(w)
	})
}
