package main

import (
	"maps"
	"slices"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/types/known/anypb"
)

const (
	clusters     = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	endpoints    = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
	secrets      = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"
	extensions   = "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig"
	listeners    = "type.googleapis.com/envoy.config.listener.v3.Listener"
	routeConfigs = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
	virtualHosts = "type.googleapis.com/envoy.config.route.v3.VirtualHost"
)

func shortName(typeURL string) string {
	return typeURL[strings.LastIndex(typeURL, ".")+1:]
}

type set map[string]bool

// without returns what is not in the other set, in order.
func (s set) without(other set) []string {
	var names []string
	for name := range s {
		if !other[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// references are the resources that a resource needs.
type references struct {
	// Names by type.
	names map[string][]string
	vhds  bool
}

// state is what the client has: for each type, what each resource refers to.
type state map[string]map[string]references

func newState() state {
	has := state{}
	for _, kind := range []string{
		clusters, endpoints, secrets, extensions, listeners, routeConfigs, virtualHosts,
	} {
		has[kind] = map[string]references{}
	}
	return has
}

// put notes a resource. It returns its name, and what is to be shown after it.
func (s state) put(resource *anypb.Any) (name, inline string, err error) {
	message, err := resource.UnmarshalNew()
	if err != nil {
		return "", "", err
	}
	refers := references{names: map[string][]string{}}
	need := func(kind, name string) {
		if name != "" {
			refers.names[kind] = append(refers.names[kind], name)
		}
	}
	switch message := message.(type) {
	case *clusterv3.Cluster:
		name = message.Name
		if message.GetType() == clusterv3.Cluster_EDS {
			service := message.GetEdsClusterConfig().GetServiceName()
			if service == "" {
				service = name
			}
			need(endpoints, service)
		}
	case *listenerv3.Listener:
		name = message.Name
		managers := []*anypb.Any{message.GetApiListener().GetApiListener()}
		for _, chain := range append(message.FilterChains, message.DefaultFilterChain) {
			for _, filter := range chain.GetFilters() {
				managers = append(managers, filter.GetTypedConfig())
			}
			context := &tlsv3.DownstreamTlsContext{}
			socket := chain.GetTransportSocket().GetTypedConfig()
			if socket.MessageIs(context) && socket.UnmarshalTo(context) == nil {
				for _, secret := range context.GetCommonTlsContext().GetTlsCertificateSdsSecretConfigs() {
					need(secrets, secret.Name)
				}
			}
		}
		for _, manager := range managers {
			http := &hcmv3.HttpConnectionManager{}
			if !manager.MessageIs(http) || manager.UnmarshalTo(http) != nil {
				continue
			}
			need(routeConfigs, http.GetRds().GetRouteConfigName())
			for _, filter := range http.HttpFilters {
				if filter.GetConfigDiscovery() != nil {
					need(extensions, filter.Name)
				}
			}
		}
	case *tlsv3.Secret:
		name = message.Name
	case *corev3.TypedExtensionConfig:
		name = message.Name
	case *endpointv3.ClusterLoadAssignment:
		name = message.ClusterName
	case *routev3.RouteConfiguration:
		name = message.Name
		refers.vhds = message.Vhds != nil
		var hosts []string
		for _, host := range message.VirtualHosts {
			hosts = append(hosts, host.Name)
		}
		if len(hosts) > 0 {
			inline = "[" + strings.Join(hosts, ",") + "]"
		}
	case *routev3.VirtualHost:
		name = message.Name
	}
	s[resource.TypeUrl][name] = refers
	return name, inline, nil
}

func (s state) remove(typeURL, name string) {
	delete(s[typeURL], name)
}

func (s state) clear(typeURL string) {
	clear(s[typeURL])
}

// referredTo returns names of a type that something refers to.
func (s state) referredTo(typeURL string) set {
	names := set{}
	for _, kind := range []string{clusters, listeners} {
		for refers := range maps.Values(s[kind]) {
			for _, name := range refers.names[typeURL] {
				names[name] = true
			}
		}
	}
	return names
}

func (s state) usesVhds() bool {
	for refers := range maps.Values(s[routeConfigs]) {
		if refers.vhds {
			return true
		}
	}
	return false
}
