package main

import (
	"fmt"
	"strings"
	"sync"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// server sends to the newest stream.
type server struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	mutex  sync.Mutex
	stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer
	end    chan struct{}
	nonce  int
}

func (s *server) DeltaAggregatedResources(stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	end := make(chan struct{})
	s.mutex.Lock()
	s.stream, s.end = stream, end
	s.mutex.Unlock()
	say("a stream is open")
	go listen(stream)
	select {
	case <-stream.Context().Done():
	case <-end:
		say("cutting the stream")
	}
	return nil
}

func listen(stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) {
	for {
		request, err := stream.Recv()
		if err != nil {
			say("the stream ended: %v", err)
			return
		}
		rejection := ""
		if request.ErrorDetail != nil {
			rejection = " NACK: " + request.ErrorDetail.Message
		}
		say("<- %-22s subscribe=%q unsubscribe=%q has=%v nonce=%q%s", shortName(request.TypeUrl),
			request.ResourceNamesSubscribe, request.ResourceNamesUnsubscribe,
			request.InitialResourceVersions, request.ResponseNonce, rejection)
	}
}

// put sends a response of a type with these resources.
func (s *server) put(typeURL string, resources ...*discoveryv3.Resource) {
	s.send(typeURL, nil, resources...)
}

func (s *server) send(typeURL string, removed []string, resources ...*discoveryv3.Resource) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.nonce++
	response := &discoveryv3.DeltaDiscoveryResponse{
		TypeUrl:           typeURL,
		Nonce:             fmt.Sprint("n", s.nonce),
		SystemVersionInfo: fmt.Sprint(s.nonce),
		Resources:         resources,
		RemovedResources:  removed,
	}
	var names []string
	for _, resource := range resources {
		names = append(names, resource.Name+"@"+resource.Version)
	}
	say("-> %-22s %v removed=%v nonce=%q", shortName(typeURL), names, removed, response.Nonce)
	if s.stream == nil {
		say("nobody is connected")
	} else if err := s.stream.Send(response); err != nil {
		say("cannot send: %v", err)
	}
}

func (s *server) cut() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.end != nil {
		close(s.end)
		s.end = nil
	}
}

func shortName(typeURL string) string {
	return typeURL[strings.LastIndex(typeURL, ".")+1:]
}
