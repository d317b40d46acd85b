package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestAPortForwardThatAcceptsOnlyJSONIsNotAcceptable(t *testing.T) {
	for accept, want := range map[string]int{
		"":                          http.StatusBadRequest,
		"*/*":                       http.StatusBadRequest,
		"application/json, */*;q=1": http.StatusBadRequest,
		"application/json":          http.StatusNotAcceptable,
	} {
		request := httptest.NewRequest(http.MethodPost, "/portForward/kube-system/etcd-a", nil)
		if accept != "" {
			request.Header.Set("Accept", accept)
		}
		answer := httptest.NewRecorder()
		routes("127.0.0.1").ServeHTTP(answer, request)
		// A request without an upgrade gets no further.
		if answer.Code != want {
			t.Errorf("Accept %q: %d, want %d", accept, answer.Code, want)
		}
	}
}
