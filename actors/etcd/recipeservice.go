package etcd

import (
	"context"
	"io"
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/concord-kv/concord/actors/etcd/recipepb"
)

// The services are described by hand: their messages are ours, their names etcd's.

const (
	lockService     = "v3lockpb.Lock"
	electionService = "v3electionpb.Election"
)

// recipe is one unary call: over gRPC, and over HTTP as JSON.
type recipe struct {
	service, method, path string
	request               func() proto.Message
	do                    func(*recipes, context.Context, proto.Message) (proto.Message, error)
}

// unary makes a recipe of a method.
func unary[Q, A any, PQ interface {
	*Q
	proto.Message
}, PA interface {
	*A
	proto.Message
}](service, method, path string, do func(*recipes, context.Context, PQ) (PA, error)) recipe {
	return recipe{service, method, path, func() proto.Message { return PQ(new(Q)) }, func(s *recipes, ctx context.Context, m proto.Message) (proto.Message, error) {
		a, err := do(s, ctx, m.(PQ))
		if err != nil {
			return nil, err
		}
		return a, nil
	}}
}

var recipeMethods = []recipe{
	unary(lockService, "Lock", "/v3/lock/lock", (*recipes).Lock),
	unary(lockService, "Unlock", "/v3/lock/unlock", (*recipes).Unlock),
	unary(electionService, "Campaign", "/v3/election/campaign", (*recipes).Campaign),
	unary(electionService, "Proclaim", "/v3/election/proclaim", (*recipes).Proclaim),
	unary(electionService, "Leader", "/v3/election/leader", (*recipes).Leader),
	unary(electionService, "Resign", "/v3/election/resign", (*recipes).Resign),
}

// registerRecipes adds the services to the gRPC server.
func (s *Server) registerRecipes(r *recipes) {
	s.recipes = r
	descs := map[string]*grpc.ServiceDesc{}
	for _, name := range []string{lockService, electionService} {
		descs[name] = &grpc.ServiceDesc{ServiceName: name, HandlerType: (*any)(nil)}
	}
	for _, m := range recipeMethods {
		d := descs[m.service]
		d.Methods = append(d.Methods, grpc.MethodDesc{MethodName: m.method, Handler: m.handle})
	}
	descs[electionService].Streams = []grpc.StreamDesc{{StreamName: "Observe", ServerStreams: true, Handler: observe}}
	for _, d := range descs {
		s.grpc.RegisterService(d, r)
	}
}

func (m recipe) handle(srv any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
	q := m.request()
	if err := decode(q); err != nil {
		return nil, err
	}
	info := &grpc.UnaryServerInfo{Server: srv, FullMethod: "/" + m.service + "/" + m.method}
	return interceptor(ctx, q, info, func(ctx context.Context, q any) (any, error) {
		return m.do(srv.(*recipes), ctx, q.(proto.Message))
	})
}

func observe(srv any, stream grpc.ServerStream) error {
	q := &recipepb.LeaderRequest{}
	if err := stream.RecvMsg(q); err != nil {
		return err
	}
	return srv.(*recipes).Observe(q, &grpc.GenericServerStream[recipepb.LeaderRequest, recipepb.LeaderResponse]{ServerStream: stream})
}

// recipeBodyMax bounds what an HTTP request may hold.
const recipeBodyMax = 2 << 20

// serveRecipes adds the services' JSON form.
func (s *Server) serveRecipes(h *http.ServeMux) {
	for _, m := range recipeMethods {
		h.HandleFunc("POST "+m.path, func(w http.ResponseWriter, r *http.Request) {
			q := m.request()
			body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, recipeBodyMax))
			if err == nil {
				err = protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(body, q)
			}
			if err != nil {
				answer(w, http.StatusBadRequest, map[string]any{"code": 3, "message": err.Error()})
				return
			}
			ctx := metadata.NewIncomingContext(r.Context(), metadata.Pairs(rpctypes.TokenFieldNameSwagger, r.Header.Get("Authorization")))
			a, err := m.do(s.recipes, ctx, q)
			if err != nil {
				st := status.Convert(err)
				answer(w, runtime.HTTPStatusFromCode(st.Code()), map[string]any{"code": int(st.Code()), "message": st.Message()})
				return
			}
			text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(a)
			if err != nil {
				answer(w, http.StatusInternalServerError, map[string]any{"code": 13, "message": err.Error()})
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(text) // the client may have left
		})
	}
}
