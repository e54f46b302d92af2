package main

import (
	"log"
	"strings"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	localv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/local_ratelimit/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const (
	clusters     = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	endpoints    = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
	listeners    = "type.googleapis.com/envoy.config.listener.v3.Listener"
	routeConfigs = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
	virtualHosts = "type.googleapis.com/envoy.config.route.v3.VirtualHost"
)

// limitFilter is the name of the local rate limit filter, and limitKey that of its descriptor.
const (
	limitFilter = "limit"
	limitKey    = "limited"
)

// tokens is how many requests a bucket lets through; it is not refilled while one looks.
const tokens = 3

func pack(message proto.Message) *anypb.Any {
	packed, err := anypb.New(message)
	if err != nil {
		log.Fatal(err)
	}
	return packed
}

func resource(name, version string, message proto.Message) *discoveryv3.Resource {
	return &discoveryv3.Resource{Name: name, Version: version, Resource: pack(message)}
}

func ads() *corev3.ConfigSource {
	return &corev3.ConfigSource{
		ResourceApiVersion:    corev3.ApiVersion_V3,
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
	}
}

func loopback(port uint32) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address:       "127.0.0.1",
		PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port},
	}}}
}

// listener has the version in its server name, so that each is another one.
func listener(name string, port uint32, routes, version string, filters ...*hcmv3.HttpFilter) *discoveryv3.Resource {
	router := &hcmv3.HttpFilter{Name: "router", ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: pack(&routerv3.Router{})}}
	manager := &hcmv3.HttpConnectionManager{
		StatPrefix:     name,
		ServerName:     version,
		RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{RouteConfigName: routes, ConfigSource: ads()}},
		HttpFilters:    append(filters, router),
	}
	filter := &listenerv3.Filter{Name: "http", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: pack(manager)}}
	return resource(name, version, &listenerv3.Listener{
		Name:         name,
		Address:      loopback(port),
		FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{filter}}},
	})
}

func routes(name, version string, vhds bool, inline ...*routev3.VirtualHost) *discoveryv3.Resource {
	return resource(name, version, routeConfig(name, version, vhds, inline...))
}

func routeConfig(name, version string, vhds bool, inline ...*routev3.VirtualHost) *routev3.RouteConfiguration {
	config := &routev3.RouteConfiguration{
		Name:                     name,
		VirtualHosts:             inline,
		IgnorePortInHostMatching: true,
		ResponseHeadersToAdd: []*corev3.HeaderValueOption{
			{Header: &corev3.HeaderValue{Key: "x-routes", Value: version}},
		},
	}
	if vhds {
		config.Vhds = &routev3.Vhds{ConfigSource: ads()}
	}
	return config
}

func limitedRoutes(name, version string) *discoveryv3.Resource {
	config := routeConfig(name, version, true)
	config.TypedPerFilterConfig = map[string]*anypb.Any{limitFilter: pack(limit(bucket()))}
	return resource(name, version, config)
}

func host(name string, route *routev3.Route, domains ...string) *routev3.VirtualHost {
	route.Match = &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}}
	return &routev3.VirtualHost{Name: name, Domains: domains, Routes: []*routev3.Route{route}}
}

// answers with a body. The bodies NOCLUSTER and BADHDR make it lead to a cluster that is not there,
// and set a header that may not be set.
func answers(name, body string, domains ...string) *routev3.VirtualHost {
	if strings.HasPrefix(body, "NOCLUSTER") {
		return leadsTo(name, "nope", domains...)
	}
	route := &routev3.Route{Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{
		Status: 200,
		Body:   &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: body}},
	}}}
	if strings.HasPrefix(body, "BADHDR") {
		route.RequestHeadersToAdd = []*corev3.HeaderValueOption{{Header: &corev3.HeaderValue{Key: ":path", Value: "x"}}}
	}
	return host(name, route, domains...)
}

func leadsTo(name, cluster string, domains ...string) *routev3.VirtualHost {
	route := &routev3.Route{Action: &routev3.Route_Route{Route: &routev3.RouteAction{
		ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: cluster},
	}}}
	return host(name, route, domains...)
}

func bucket() *typev3.TokenBucket {
	return &typev3.TokenBucket{
		MaxTokens:     tokens,
		TokensPerFill: wrapperspb.UInt32(1),
		FillInterval:  durationpb.New(1000 * time.Second),
	}
}

func limit(bucket *typev3.TokenBucket) *localv3.LocalRateLimit {
	always := &corev3.RuntimeFractionalPercent{DefaultValue: &typev3.FractionalPercent{Numerator: 100}}
	return &localv3.LocalRateLimit{StatPrefix: limitFilter, TokenBucket: bucket, FilterEnabled: always, FilterEnforced: always}
}

func limitedByRoute(name, body, domain string) *routev3.VirtualHost {
	limited := answers(name, body, domain)
	limited.Routes[0].TypedPerFilterConfig = map[string]*anypb.Any{limitFilter: pack(limit(bucket()))}
	return limited
}

// limited is counted by the descriptor of limitedByDescriptor.
func limited(name, domain string) *routev3.VirtualHost {
	host := leadsTo(name, "c1", domain)
	key := &routev3.RateLimit_Action_GenericKey{DescriptorValue: limitKey}
	host.RateLimits = []*routev3.RateLimit{{Actions: []*routev3.RateLimit_Action{
		{ActionSpecifier: &routev3.RateLimit_Action_GenericKey_{GenericKey: key}},
	}}}
	return host
}

// limitedElsewhere is the filter, installed and disabled: route configurations enable it.
func limitedElsewhere() *hcmv3.HttpFilter {
	config := pack(&localv3.LocalRateLimit{StatPrefix: limitFilter})
	return &hcmv3.HttpFilter{Name: limitFilter, Disabled: true, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: config}}
}

// limitedByDescriptor is the filter with a bucket for each request that has the descriptor.
func limitedByDescriptor() *hcmv3.HttpFilter {
	plenty := &typev3.TokenBucket{
		MaxTokens:     1_000_000,
		TokensPerFill: wrapperspb.UInt32(1_000_000),
		FillInterval:  durationpb.New(time.Second),
	}
	config := limit(plenty)
	config.Descriptors = []*ratelimitv3.LocalRateLimitDescriptor{{
		Entries:     []*ratelimitv3.RateLimitDescriptor_Entry{{Key: "generic_key", Value: limitKey}},
		TokenBucket: bucket(),
	}}
	return &hcmv3.HttpFilter{Name: limitFilter, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: pack(config)}}
}

func cluster(name, version string, timeoutMilliseconds uint32) *discoveryv3.Resource {
	return resource(name, version, &clusterv3.Cluster{
		Name:                 name,
		ConnectTimeout:       durationpb.New(time.Duration(timeoutMilliseconds) * time.Millisecond),
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		EdsClusterConfig:     &clusterv3.Cluster_EdsClusterConfig{EdsConfig: ads()},
	})
}

func assignment(name, version string, port uint32) *discoveryv3.Resource {
	endpoint := &endpointv3.Endpoint{Address: loopback(port)}
	return resource(name, version, &endpointv3.ClusterLoadAssignment{
		ClusterName: name,
		Endpoints: []*endpointv3.LocalityLbEndpoints{{
			LbEndpoints: []*endpointv3.LbEndpoint{{HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: endpoint}}},
		}},
	})
}
