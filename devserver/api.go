package devserver

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/heteroflow/node-agent/devserver/operator"
	"github.com/heteroflow/node-agent/protocol"
)

// Bodies are bounded by what they may hold at most.
const (
	maxHeartbeatBytes = 8 << 20 // model lists of thousands of entries
	maxRequestBytes   = 4 << 20 // 1 MiB read, base64, in a result
	maxTaskBytes      = 1 << 20
)

// Names of the two security schemes.
const (
	schemeSystem   = "systemKey"
	schemeOperator = "operatorToken"
)

var (
	bySystem   = []map[string][]string{{schemeSystem: {}}}
	byOperator = []map[string][]string{{schemeOperator: {}}}
)

// routes builds the HTTP API.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	s.api(mux)
	return s.decode(jsonErrors(mux))
}

// api registers every operation on the mux and returns huma's description of
// them.
func (s *Server) api(mux humago.Mux) huma.API {
	config := huma.DefaultConfig("HeteroFlow control plane", "1")
	config.Info.Description = "Reference control plane of the HeteroFlow node agent: the agents' protocol, and an API for operators and tests."
	config.CreateHooks = nil // no $schema links in answers
	config.Components.Schemas = huma.NewMapRegistry("#/components/schemas/", schemaName)
	config.DocsPath, config.SchemasPath = "", ""
	config.AllowAdditionalPropertiesByDefault = true
	config.FieldsOptionalByDefault = true
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		schemeSystem:   {Type: "apiKey", In: "header", Name: protocol.HeaderAPIKey, Description: "System key of the agents; scoped to what one node needs."},
		schemeOperator: {Type: "http", Scheme: "bearer", Description: "Operator token."},
	}
	config.Components.Schemas.RegisterTypeAlias(reflect.TypeFor[apiError](), reflect.TypeFor[protocol.ErrorBody]())
	api := humago.New(mux, config)
	api.UseMiddleware(func(ctx huma.Context, next func(huma.Context)) { s.authorize(api, ctx, next) })
	s.registerAgentTasks(api)
	s.registerHeartbeat(api)
	s.registerWake(api)
	s.registerOperatorTasks(api)
	s.registerOperatorNodes(api)
	registerChannel[protocol.FileRequest](s, api, protocol.ChannelFiles)
	registerChannel[protocol.SliceRequest](s, api, protocol.ChannelSlices)
	registerChannel[protocol.ImageRequest](s, api, protocol.ChannelImages)
	s.registerDistribution(api)
	describeResults(api.OpenAPI().Components.Schemas)
	describeWords(api.OpenAPI())
	return api
}

// schemaName keeps the operators' view of a thing apart from the agents'.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	if t.PkgPath() == reflect.TypeFor[operator.Task]().PkgPath() {
		return "Operator" + name
	}
	return name
}

// authorize holds every operation to the security scheme that its description
// names.
func (s *Server) authorize(api huma.API, ctx huma.Context, next func(huma.Context)) {
	refuse := func(status int, message string) {
		_ = huma.WriteErr(api, ctx, status, message) // the client has gone
	}
	for _, scheme := range ctx.Operation().Security {
		if _, ok := scheme[schemeSystem]; ok && !s.keys.isSystem(ctx.Header(protocol.HeaderAPIKey)) {
			refuse(http.StatusUnauthorized, "the system key is missing or wrong")
			return
		}
		if _, ok := scheme[schemeOperator]; !ok {
			continue
		}
		if !s.keys.operable {
			refuse(http.StatusForbidden, "the operator API is off: no operator token is configured")
			return
		}
		token, bearer := strings.CutPrefix(ctx.Header("Authorization"), "Bearer ")
		if !bearer || !s.keys.isOperator(token) {
			refuse(http.StatusUnauthorized, "the operator token is missing or wrong")
			return
		}
	}
	next(ctx)
}

// decode unpacks gzip bodies of agents where that is offered. A caller
// without the key gets nothing unpacked: its operation refuses it.
func (s *Server) decode(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch encoding := strings.ToLower(r.Header.Get("Content-Encoding")); {
		case encoding == "" || encoding == "identity":
		case encoding != "gzip" || !s.features.Gzip:
			writeError(w, newError(http.StatusUnsupportedMediaType, "bodies encoded %q are not taken here", encoding))
			return
		case s.keys.isSystem(r.Header.Get(protocol.HeaderAPIKey)):
			body, err := unzip(r.Body)
			if err != nil {
				writeError(w, newError(http.StatusBadRequest, "the body cannot be unpacked: %s", err))
				return
			}
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		}
		next.ServeHTTP(w, r)
	})
}

// unzip unpacks at most what the largest body may have; the operation's own
// limit refuses one that reaches it.
func unzip(body io.Reader) ([]byte, error) {
	unpacked, err := gzip.NewReader(body)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(unpacked, maxHeartbeatBytes))
}

// jsonErrors answers what no route takes in the protocol's error shape.
func jsonErrors(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fallback, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		probe := &statusProbe{header: http.Header{}, status: http.StatusOK}
		fallback.ServeHTTP(probe, r)
		if probe.status < http.StatusBadRequest { // a redirect to the clean path
			fallback.ServeHTTP(w, r)
			return
		}
		if allow := probe.header.Get("Allow"); allow != "" {
			w.Header().Set("Allow", allow)
		}
		writeError(w, newError(probe.status, "%s %s: %s", r.Method, r.URL.Path, strings.ToLower(http.StatusText(probe.status))))
	})
}

// statusProbe keeps the status and headers of an answer and drops its body.
type statusProbe struct {
	header http.Header
	status int
}

func (p *statusProbe) Header() http.Header         { return p.header }
func (p *statusProbe) WriteHeader(status int)      { p.status = status }
func (p *statusProbe) Write(b []byte) (int, error) { return len(b), nil }

// extend is a middleware that lets one operation take longer than the
// server's timeouts. The read deadline counts too: net/http gives a request
// up when it passes while the handler runs.
func extend(by time.Duration) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		_, w := humago.Unwrap(ctx)
		control := http.NewResponseController(w)
		until := time.Now().Add(by)
		// An error means a connection without deadlines (a test's recorder) or a
		// closed one, which the handler's own write finds out.
		_ = errors.Join(control.SetReadDeadline(until), control.SetWriteDeadline(until))
		next(ctx)
	}
}

// item is the input of an operation on one task, request or node.
type item struct {
	ID string `path:"id" doc:"Identifier of the task, request or node."`
}

// itemWith is item with a body.
type itemWith[B any] struct {
	ID   string `path:"id" doc:"Identifier of the task, request or node."`
	Body B
}

func checkTaskID(id string) error {
	if !protocol.ValidTaskID(id) {
		return newError(http.StatusBadRequest, "%q is no identifier of a task or request", clip(id))
	}
	return nil
}

func checkNodeID(id string) error {
	if !protocol.ValidNodeID(id) {
		return newError(http.StatusBadRequest, "%q is no identifier of a node", clip(id))
	}
	return nil
}

// clip shortens outside text for a message.
func clip(s string) string { return s[:min(len(s), 80)] }

// reply is an operation's answer.
type reply[T any] struct{ Body T }

func answer[T any](body T) *reply[T] { return &reply[T]{Body: body} }
