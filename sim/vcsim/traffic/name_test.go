package traffic

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestURLsOfTransfersHaveTheServersName(t *testing.T) {
	inner := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, `{"uri":"https://127.0.0.1:8989/cls/data/key/disk","other":"https://127.0.0.1:89890/"}`)
	})
	named := `{"uri":"https://10.2.0.1:8989/cls/data/key/disk","other":"https://127.0.0.1:89890/"}`
	for _, c := range []struct{ path, host, want string }{
		{"/api/content/x", "10.2.0.1:8989", named},
		{"/api/content/x", "127.0.0.1:8989", named},
		{"/rest/com/x", "vc", named},
		{"/sdk", "vc", `{"uri":"https://127.0.0.1:8989/cls/data/key/disk","other":"https://127.0.0.1:89890/"}`},
	} {
		r := httptest.NewRequest(http.MethodGet, c.path, http.NoBody)
		r.Host = c.host
		w := httptest.NewRecorder()
		Named("127.0.0.1:8989", "10.2.0.1:8989", inner).ServeHTTP(w, r)
		if w.Code != http.StatusAccepted || w.Body.String() != c.want || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s for %s: %d %s", c.path, c.host, w.Code, w.Body.String())
		}
	}
}
