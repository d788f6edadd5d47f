package protocol

// ErrorBody is the body of every answer that is not a success.
type ErrorBody struct {
	Error ErrorDetail `json:"error" doc:"What went wrong."`
	Task  *Task       `json:"task,omitzero" doc:"The task as it is stored now; only with a lost compare-and-set (409)."`
}

// ErrorDetail says what went wrong, once for programs and once for people.
type ErrorDetail struct {
	Code    string `json:"code" doc:"Short stable word."`
	Message string `json:"message" doc:"For people: what happened, to what, what to do."`
}

// Codes of ErrorDetail that a caller may decide by. A server may send others.
const (
	CodeInvalid             = "invalid_request"        // 400, 422
	CodeUnauthorized        = "unauthorized"           // 401
	CodeForbidden           = "forbidden"              // 403
	CodeNotFound            = "not_found"              // 404
	CodeMethodNotAllowed    = "method_not_allowed"     // 405
	CodeConflict            = "conflict"               // 409
	CodeTooLarge            = "body_too_large"         // 413
	CodeUnsupportedEncoding = "unsupported_media_type" // 415
	CodeIllegalTransition   = "illegal_transition"     // 422
	CodeTooManyRequests     = "too_many_requests"      // 429
	CodeInternal            = "internal"               // 5xx
)
