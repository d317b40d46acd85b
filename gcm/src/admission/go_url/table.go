//go:build ignore

// Writes table.json: how Go reads the address of a proxy, as http.ProxyFromEnvironment does for containerd and the kubelet, and
// the entries of NO_PROXY. Run it with: go run table.go > table.json
package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
)

type row struct {
	Text     string `json:"text"`
	OK       bool   `json:"ok"`
	Host     string `json:"host,omitempty"`
	User     string `json:"user,omitempty"`
	Password string `json:"password,omitempty"`
}

// The rule of golang.org/x/net/http/httpproxy, parseProxy. What it tries second makes "http:" the host of a text that it cannot parse.
func parseProxy(proxy string) (*url.URL, error) {
	proxyURL, err := url.Parse(proxy)
	if err != nil || proxyURL.Scheme == "" || proxyURL.Host == "" {
		if proxyURL, err := url.Parse("http://" + proxy); err == nil {
			return proxyURL, nil
		}
	}
	return proxyURL, err
}

func main() {
	texts := []string{
		"http://proxy.corp:3128", "https://proxy.corp", "HTTP://proxy.corp:3128", "http://10.0.0.1:3128/", "http://[fd00::1]:3128",
		"http://[fd00::1]", "http://user@proxy:1", "http://user:@proxy:1", "http://:p@proxy:1", "http://u:p%40w@proxy:1",
		"http://CORP%5Csvc:s@proxy:1", "http://u:p@w@proxy:1", "http://u:p:w@proxy:1", "http://u:%C3%A4@proxy:1", "http://u:p@proxy:",
		`http://CORP\svc:s@proxy:1`, "http://u:%ss@proxy:1", "http://u:%@proxy:1", "http://u:%4@proxy:1", "http://u:ä@proxy:1",
		"http://proxy:1\n", "http://proxy:1\r\n", " http://proxy:1", "http://proxy:1 ", "http://proxy:1\t", "http://pro xy:1",
		"proxy:3128", "proxy.corp", "10.0.0.1:3128", "//proxy:3128", "http:proxy:3128", "http:/proxy:3128", "http://", "http:///x",
		"ftp://proxy:1", "socks5://proxy:1", "http://proxy:port", "http://proxy:1:2", "http://fd00::1:3128", "http://[fd00::1", "http://fd00::1]:3",
		"http://[fd00::zz]:1", "http://[10.0.0.1]:1", "http://[fd00::1]x", "http://[fd00::1%25eth0]:1", "http://[]:1", "http://u:p@:1",
		"http://pr%6fxy:1", "http://pr%zzxy:1", "http://proxy:99999", "http://proxy/%zz", "http://proxy:1#%zz",
		"http://u:1#w@proxy:1", "http://u:1/w@proxy:1", "http://u:1?w@proxy:1", "http://<user>:<pwd>@<ip>:<port>", "http://{user}@proxy:1",
	}
	for c := rune(0x20); c < 0x7f; c++ {
		texts = append(texts, fmt.Sprintf("http://u:a%cb@proxy:1", c), fmt.Sprintf("http://a%cb:p@proxy:1", c), fmt.Sprintf("http://pr%cxy:1", c))
	}
	var rows []row
	for _, text := range texts {
		one := row{Text: text}
		if u, err := parseProxy(text); err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.Host != "http:" && !strings.ContainsAny(text, "#?") {
			one.OK, one.Host = true, u.Host
			if u.User != nil {
				one.User = u.User.Username()
				one.Password, _ = u.User.Password()
			}
		}
		rows = append(rows, one)
	}
	fmt.Println("[")
	for at, one := range rows {
		line, _ := json.Marshal(one)
		end := ","
		if at == len(rows)-1 {
			end = ""
		}
		fmt.Println(string(line) + end)
	}
	fmt.Println("]")
}
