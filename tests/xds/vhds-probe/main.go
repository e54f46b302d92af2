// The probe is a delta ADS server that sends what it is told to on standard input, and prints what
// Envoy says. See README.md, and `commands` below.
package main

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"strings"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
)

var started = time.Now()

func say(format string, values ...any) {
	fmt.Printf("%7.3f "+format+"\n", append([]any{time.Since(started).Seconds()}, values...)...)
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: vhds-probe ADDRESS < script")
	}
	listener, err := net.Listen("tcp", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	ads := &server{}
	transport := grpc.NewServer()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(transport, ads)
	go func() { log.Fatal(transport.Serve(listener)) }()

	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if err := run(ads, words[0], words[1:]); err != nil {
			log.Fatalf("%s: %v", lines.Text(), err)
		}
	}
}

// commands are the words of a script, each with the number of its arguments; -1: any.
var commands = map[string]struct {
	arguments int
	run       func(*server, []string)
}{
	"listener": {4, func(s *server, a []string) { // NAME PORT ROUTES VERSION
		s.put(listeners, listener(a[0], port(a[1]), a[2], a[3]))
	}},
	"listener-limited-by-route": {4, func(s *server, a []string) {
		s.put(listeners, listener(a[0], port(a[1]), a[2], a[3], limitedElsewhere()))
	}},
	"listener-limited": {4, func(s *server, a []string) {
		s.put(listeners, listener(a[0], port(a[1]), a[2], a[3], limitedByDescriptor()))
	}},
	"remove-listener": {-1, func(s *server, a []string) { s.send(listeners, a) }},
	"routes": {2, func(s *server, a []string) { // NAME VERSION
		s.put(routeConfigs, routes(a[0], a[1], true))
	}},
	"routes-inline": {2, func(s *server, a []string) {
		s.put(routeConfigs, routes(a[0], a[1], false, answers("inline", a[1], "*")))
	}},
	"routes-inline-and-vhds": {2, func(s *server, a []string) {
		s.put(routeConfigs, routes(a[0], a[1], true, answers("inline", "inline"+a[1], "inline.example")))
	}},
	"routes-limited-by-route": {2, func(s *server, a []string) {
		s.put(routeConfigs, limitedRoutes(a[0], a[1]))
	}},
	"remove-routes": {-1, func(s *server, a []string) { s.send(routeConfigs, a) }},
	"hosts": {-1, func(s *server, a []string) { // ROUTES NAME VERSION DOMAIN,DOMAIN ...
		var all []*discoveryv3.Resource
		for ; len(a) >= 4; a = a[4:] {
			host := answers(a[0]+"/"+a[1], a[2], strings.Split(a[3], ",")...)
			all = append(all, resource(host.Name, a[2], host))
		}
		s.put(virtualHosts, all...)
	}},
	"host-to-cluster": {5, func(s *server, a []string) { // ROUTES NAME VERSION DOMAIN CLUSTER
		host := leadsTo(a[0]+"/"+a[1], a[4], a[3])
		s.put(virtualHosts, resource(host.Name, a[2], host))
	}},
	"host-limited-by-route": {4, func(s *server, a []string) {
		host := limitedByRoute(a[0]+"/"+a[1], a[2], a[3])
		s.put(virtualHosts, resource(host.Name, a[2], host))
	}},
	"host-limited": {4, func(s *server, a []string) {
		host := limited(a[0]+"/"+a[1], a[3])
		s.put(virtualHosts, resource(host.Name, a[2], host))
	}},
	"hosts-none":   {0, func(s *server, _ []string) { s.put(virtualHosts) }},
	"remove-hosts": {-1, func(s *server, a []string) { s.send(virtualHosts, a) }},
	"routes-and-host": {5, func(s *server, a []string) { // ROUTES VERSION HOST VERSION DOMAIN, back to back
		s.put(routeConfigs, routes(a[0], a[1], true))
		host := answers(a[0]+"/"+a[2], a[3], a[4])
		s.put(virtualHosts, resource(host.Name, a[3], host))
	}},
	"cluster": {3, func(s *server, a []string) { // NAME VERSION TIMEOUT_MS
		s.put(clusters, cluster(a[0], a[1], port(a[2])))
	}},
	"clusters-none": {0, func(s *server, _ []string) { s.put(clusters) }},
	"endpoints": {3, func(s *server, a []string) { // CLUSTER VERSION PORT
		s.put(endpoints, assignment(a[0], a[1], port(a[2])))
	}},
	"cut": {0, func(s *server, _ []string) { s.cut() }},
	"say": {-1, func(_ *server, a []string) { say("## %s", strings.Join(a, " ")) }},
	"sleep": {1, func(_ *server, a []string) {
		if pause, err := time.ParseDuration(a[0]); err == nil {
			time.Sleep(pause)
		}
	}},
	"get": {2, func(_ *server, a []string) { get(a[0], a[1]) }}, // PORT HOST
}

func run(ads *server, word string, arguments []string) error {
	command, known := commands[word]
	switch {
	case !known:
		return fmt.Errorf("unknown command")
	case command.arguments >= 0 && command.arguments != len(arguments):
		return fmt.Errorf("%d arguments, not %d", len(arguments), command.arguments)
	}
	command.run(ads, arguments)
	return nil
}

func port(text string) uint32 {
	var number uint32
	if _, err := fmt.Sscan(text, &number); err != nil {
		log.Fatalf("%q: %v", text, err)
	}
	return number
}

// get prints status, body and the header `x-routes`, which says whose route configuration it was.
func get(port, host string) {
	connection, err := net.DialTimeout("tcp", "127.0.0.1:"+port, time.Second)
	if err != nil {
		say("GET :%s %s: %v", port, host, err)
		return
	}
	defer connection.Close()
	_ = connection.SetDeadline(time.Now().Add(time.Second))
	fmt.Fprintf(connection, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", host)
	answer, _ := io.ReadAll(connection)
	head, body, _ := strings.Cut(string(answer), "\r\n\r\n")
	status, headers, _ := strings.Cut(head, "\r\n")
	routes := ""
	for line := range strings.Lines(headers) {
		if strings.HasPrefix(line, "x-routes: ") {
			routes = strings.TrimSpace(line)
		}
	}
	say("GET :%s %s => %s | %s | %s", port, host, status, strings.TrimSpace(body), routes)
}
