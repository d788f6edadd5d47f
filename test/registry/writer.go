package registry

import "net/http"

// typeWriter replaces the Content-Type.
type typeWriter struct {
	http.ResponseWriter
	contentType string
}

func (w *typeWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *typeWriter) WriteHeader(status int) {
	w.Header().Set("Content-Type", w.contentType)
	w.ResponseWriter.WriteHeader(status)
}

// pieceWriter sends a body in pieces that are flushed to the client and calls
// after with the size of each.
type pieceWriter struct {
	http.ResponseWriter
	size  int
	after func(n int)
}

func (w *pieceWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *pieceWriter) Write(p []byte) (int, error) {
	written := 0
	for written < len(p) {
		piece := p[written:min(len(p), written+w.size)]
		n, err := w.ResponseWriter.Write(piece)
		written += n
		if err != nil {
			return written, err
		}
		if err := http.NewResponseController(w.ResponseWriter).Flush(); err != nil {
			return written, err
		}
		w.after(n)
	}
	return written, nil
}
