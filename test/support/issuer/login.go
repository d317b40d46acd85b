package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// logIn takes the steps of a browser and of the client that sent it: the authorization code flow. It returns the ID token.
func logIn(folder, client string) (string, error) {
	issuer, err := os.ReadFile(filepath.Join(folder, "url"))
	if err != nil {
		return "", err
	}
	authority, err := os.ReadFile(filepath.Join(folder, "ca.pem"))
	if err != nil {
		return "", err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	browser := &http.Client{
		Timeout:       10 * time.Second,
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	base, err := url.Parse(string(issuer))
	if err != nil {
		return "", err
	}
	asked := url.Values{
		"client_id": {client}, "redirect_uri": {redirectURI}, "response_type": {"code"}, "scope": {"openid"}, "state": {"s"},
	}
	login, err := redirected(browser.Get(base.JoinPath("authorize").String() + "?" + asked.Encode()))
	if err != nil {
		return "", err
	}
	form := url.Values{"id": {login.Query().Get("authRequestID")}, "username": {userName}, "password": {password}}
	callback, err := redirected(browser.PostForm(base.JoinPath("login", "username").String(), form))
	if err != nil {
		return "", err
	}
	back, err := redirected(browser.Get(base.ResolveReference(callback).String()))
	if err != nil {
		return "", err
	}
	return exchange(browser, base, client, back.Query().Get("code"))
}

func exchange(browser *http.Client, base *url.URL, client, code string) (string, error) {
	form := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {redirectURI}}
	request, err := http.NewRequest("POST", base.JoinPath("oauth", "token").String(), strings.NewReader(form.Encode()))
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.SetBasicAuth(client, clientSecret)
	response, err := browser.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return "", err
	}
	var tokens struct {
		IDToken string `json:"id_token"`
	}
	if err := json.Unmarshal(body, &tokens); err != nil || tokens.IDToken == "" {
		return "", fmt.Errorf("the provider gives no token: %s %s", response.Status, body)
	}
	return tokens.IDToken, nil
}

// redirected returns where an answer leads.
func redirected(response *http.Response, err error) (*url.URL, error) {
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusFound {
		body, _ := io.ReadAll(response.Body)
		return nil, fmt.Errorf("%s: %s %s", response.Request.URL.Path, response.Status, body)
	}
	return response.Location()
}
