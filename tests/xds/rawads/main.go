// Rawads is an xDS client without a proxy behind it: one ADS stream (or several), clusters and
// listeners as wildcards, endpoints, route configurations, virtual hosts, and in delta also secrets and
// filter settings, as these refer to them. It acknowledges everything, and prints a line for each
// response:
//
//	Cluster a@1f2e... b@77ab... -c          delta: names with versions in order, then what is gone
//	Cluster version=5 a b                   state of the world: the version of all, then the names
//
// After the name of a route configuration stand the virtual hosts in it: r[r/a,r/b]. With -refuse it
// takes nothing of a delta response in which a resource of that type has that text, and prints the line
// with "refused" before it.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log"
	"slices"
	"strings"
	"sync"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// largestResponse is as good as no limit: Envoy has none.
const largestResponse = 1 << 30

func main() {
	server := flag.String("server", "127.0.0.1:18000", "address of the xDS server")
	node := flag.String("node", "rawads", "node.id; with several streams their number is put after it")
	group := flag.String("group", "default", "node.cluster")
	mode := flag.String("mode", "delta", "delta or sotw")
	agent := flag.String("agent", "envoy", "node.user_agent_name; envoy is what knows VHDS")
	refuse := flag.String("refuse", "", "TYPE:TEXT, for example Cluster:evil; delta only")
	streams := flag.Int("streams", 1, "connections with one stream each; with more than one nothing is printed")
	flag.Parse()

	refusedType, refusedText, _ := strings.Cut(*refuse, ":")
	refuses := func(response *discoveryv3.DeltaDiscoveryResponse) bool {
		if *refuse == "" || shortName(response.TypeUrl) != refusedType {
			return false
		}
		return slices.ContainsFunc(response.Resources, func(resource *discoveryv3.Resource) bool {
			return bytes.Contains(resource.GetResource().GetValue(), []byte(refusedText))
		})
	}
	run := func(ads discoveryv3.AggregatedDiscoveryServiceClient, node *corev3.Node, show func(string)) error {
		return runDelta(ads, node, refuses, show)
	}
	if *mode == "sotw" {
		run = runSotw
	}
	var all sync.WaitGroup
	for number := range *streams {
		identity := &corev3.Node{Id: *node, Cluster: *group, UserAgentName: *agent}
		show := func(line string) { fmt.Println(line) }
		if *streams > 1 {
			identity.Id = fmt.Sprintf("%s-%d", *node, number)
			show = func(string) {}
		}
		all.Go(func() {
			if err := connect(*server, identity, run, show); err != nil {
				log.Fatalf("%s: %v", identity.Id, err)
			}
		})
	}
	all.Wait()
}

type runner func(discoveryv3.AggregatedDiscoveryServiceClient, *corev3.Node, func(string)) error

// connect returns when the stream ends, with the reason.
func connect(server string, node *corev3.Node, run runner, show func(string)) error {
	connection, err := grpc.NewClient(server,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(largestResponse)))
	if err != nil {
		return err
	}
	defer connection.Close()
	return run(discoveryv3.NewAggregatedDiscoveryServiceClient(connection), node, show)
}

func runDelta(
	ads discoveryv3.AggregatedDiscoveryServiceClient,
	node *corev3.Node,
	refuses func(*discoveryv3.DeltaDiscoveryResponse) bool,
	show func(string),
) error {
	stream, err := ads.DeltaAggregatedResources(context.Background())
	if err != nil {
		return err
	}
	has := newState()
	subscribed := map[string]set{endpoints: {}, secrets: {}, extensions: {}, routeConfigs: {}}
	var vhds bool
	for _, kind := range []string{clusters, listeners} {
		request := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: kind, Node: node}
		node = nil
		if err := stream.Send(request); err != nil {
			return err
		}
	}
	for {
		response, err := stream.Recv()
		if err != nil {
			return err
		}
		acknowledgement := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: response.TypeUrl, ResponseNonce: response.Nonce}
		words := []string{shortName(response.TypeUrl)}
		if refuses(response) {
			for _, resource := range response.Resources {
				words = append(words, resource.Name)
			}
			show("refused " + strings.Join(words, " "))
			acknowledgement.ErrorDetail = &statuspb.Status{Code: 3, Message: "rawads was told to refuse this"}
			if err := stream.Send(acknowledgement); err != nil {
				return err
			}
			continue
		}
		for _, resource := range response.Resources {
			_, inline, err := has.put(resource.Resource)
			if err != nil {
				return err
			}
			words = append(words, resource.Name+"@"+resource.Version+inline)
		}
		for _, name := range response.RemovedResources {
			has.remove(response.TypeUrl, name)
			words = append(words, "-"+name)
		}
		show(strings.Join(words, " "))

		// As Envoy, which acknowledges a cluster when it has its endpoints: first what resources refer
		// to is asked for.
		var requests []*discoveryv3.DeltaDiscoveryRequest
		for kind, before := range subscribed {
			now := has.referredTo(kind)
			request := &discoveryv3.DeltaDiscoveryRequest{
				TypeUrl:                  kind,
				ResourceNamesSubscribe:   now.without(before),
				ResourceNamesUnsubscribe: before.without(now),
			}
			if len(request.ResourceNamesSubscribe)+len(request.ResourceNamesUnsubscribe) > 0 {
				requests = append(requests, request)
			}
			subscribed[kind] = now
		}
		// As Envoy: one request a stream, without names, whatever route configurations there are.
		if !vhds && has.usesVhds() {
			vhds = true
			requests = append(requests, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: virtualHosts})
		}
		for _, request := range append(requests, acknowledgement) {
			if err := stream.Send(request); err != nil {
				return err
			}
		}
	}
}

func runSotw(ads discoveryv3.AggregatedDiscoveryServiceClient, node *corev3.Node, show func(string)) error {
	stream, err := ads.StreamAggregatedResources(context.Background())
	if err != nil {
		return err
	}
	has := newState()
	subscribed := map[string]set{endpoints: {}, routeConfigs: {}}
	last := map[string]*discoveryv3.DiscoveryResponse{}
	request := func(kind string) error {
		request := &discoveryv3.DiscoveryRequest{
			TypeUrl:       kind,
			Node:          node,
			ResourceNames: subscribed[kind].without(nil),
			VersionInfo:   last[kind].GetVersionInfo(),
			ResponseNonce: last[kind].GetNonce(),
		}
		node = nil
		return stream.Send(request)
	}
	for _, kind := range []string{clusters, listeners} {
		if err := request(kind); err != nil {
			return err
		}
	}
	for {
		response, err := stream.Recv()
		if err != nil {
			return err
		}
		kind := response.TypeUrl
		last[kind] = response
		// Of these two types a response has everything; of others what it does not name stays.
		if kind == clusters || kind == listeners {
			has.clear(kind)
		}
		words := []string{shortName(kind), "version=" + response.VersionInfo}
		for _, resource := range response.Resources {
			name, inline, err := has.put(resource)
			if err != nil {
				return err
			}
			words = append(words, name+inline)
		}
		show(strings.Join(words, " "))
		for other, before := range subscribed {
			now := has.referredTo(other)
			if len(now.without(before))+len(before.without(now)) == 0 {
				continue
			}
			subscribed[other] = now
			if err := request(other); err != nil {
				return err
			}
		}
		if err := request(kind); err != nil {
			return err
		}
	}
}
