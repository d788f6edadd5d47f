package devserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/devserver/store"
	"github.com/heteroflow/node-agent/protocol"
)

// apiError is an answer that is not a success, in the protocol's shape.
type apiError struct {
	protocol.ErrorBody
	status int
}

func (e *apiError) Error() string  { return e.ErrorBody.Error.Message }
func (e *apiError) GetStatus() int { return e.status }

var codes = map[int]string{
	http.StatusBadRequest:            protocol.CodeInvalid,
	http.StatusUnauthorized:          protocol.CodeUnauthorized,
	http.StatusForbidden:             protocol.CodeForbidden,
	http.StatusNotFound:              protocol.CodeNotFound,
	http.StatusMethodNotAllowed:      protocol.CodeMethodNotAllowed,
	http.StatusConflict:              protocol.CodeConflict,
	http.StatusRequestEntityTooLarge: protocol.CodeTooLarge,
	http.StatusUnsupportedMediaType:  protocol.CodeUnsupportedEncoding,
	http.StatusUnprocessableEntity:   protocol.CodeInvalid,
	http.StatusTooManyRequests:       protocol.CodeTooManyRequests,
}

func newError(status int, format string, args ...any) *apiError {
	code, ok := codes[status]
	if !ok {
		code = protocol.CodeInternal
	}
	detail := protocol.ErrorDetail{Code: code, Message: fmt.Sprintf(format, args...)}
	return &apiError{status: status, ErrorBody: protocol.ErrorBody{Error: detail}}
}

// huma has one error constructor for the whole program. Its details name the
// place and the problem; the value is left out, it may be a secret.
func init() {
	huma.NewError = func(status int, message string, errs ...error) huma.StatusError {
		parts := []string{message}
		for _, err := range errs {
			if detailer, ok := err.(huma.ErrorDetailer); ok {
				d := detailer.ErrorDetail()
				parts = append(parts, strings.TrimSpace(d.Location+" "+d.Message))
				continue
			}
			if status < http.StatusInternalServerError && err != nil {
				parts = append(parts, err.Error())
			}
		}
		return newError(status, "%s", strings.Join(parts, "; "))
	}
}

// fail turns an error of the store into an answer. What the caller cannot
// help is logged here and told without its inside.
func (s *Server) fail(err error) error {
	if conflict, ok := errors.AsType[*store.ConflictError](err); ok {
		answer := newError(http.StatusConflict, "%s", conflict.Message)
		if conflict.Task != nil {
			answer.Task = withoutCredentials(*conflict.Task)
		}
		return answer
	}
	if illegal, ok := errors.AsType[*store.IllegalTransitionError](err); ok {
		answer := newError(http.StatusUnprocessableEntity, "%s", illegal)
		answer.ErrorBody.Error.Code = protocol.CodeIllegalTransition
		return answer
	}
	switch {
	case errors.Is(err, store.ErrNotFound):
		return newError(http.StatusNotFound, "%s", err)
	case errors.Is(err, store.ErrExists):
		return newError(http.StatusConflict, "%s", err)
	case errors.Is(err, context.Canceled):
		return newError(http.StatusServiceUnavailable, "the request was given up")
	}
	s.log.Error("request failed", zap.Error(err))
	return newError(http.StatusInternalServerError, "internal error; see the server's log")
}

// withoutCredentials is a task for eyes that are not its node's.
func withoutCredentials(t protocol.Task) *protocol.Task {
	t.RegistryAuth = nil
	return &t
}

// writeError answers outside huma: unknown routes and refused encodings.
func writeError(w http.ResponseWriter, err *apiError) {
	body, encodeErr := json.Marshal(err.ErrorBody)
	if encodeErr != nil { // two strings always encode
		panic(encodeErr)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(err.status)
	_, _ = w.Write(body) // the client has gone; there is nobody to tell
}
