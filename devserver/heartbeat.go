package devserver

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/devserver/cards"
	"github.com/heteroflow/node-agent/devserver/operator"
	"github.com/heteroflow/node-agent/devserver/store"
	"github.com/heteroflow/node-agent/protocol"
)

// maxCards bounds the lists that are compared with each other.
const maxCards = 1024

// maxInstanceID bounds what becomes a key of the database.
const maxInstanceID = 128

func (s *Server) registerHeartbeat(api huma.API) {
	huma.Register(api, huma.Operation{
		OperationID: "heartbeat", Method: http.MethodPost, Path: protocol.HeartbeatPath, Tags: []string{tagAgent}, Security: bySystem,
		Summary:      "Report a node; the first report registers it",
		MaxBodyBytes: maxHeartbeatBytes, SkipValidateBody: true, Errors: []int{400, 401, 413, 415, 422},
	}, s.heartbeat)
}

func (s *Server) heartbeat(ctx context.Context, in *struct {
	Body    protocol.Heartbeat
	RawBody []byte
},
) (*reply[protocol.HeartbeatReply], error) {
	beat := in.Body
	if err := checkBeat(beat); err != nil {
		return nil, err
	}
	var before store.Node
	after, err := s.store.Beat(ctx, beat, json.RawMessage(in.RawBody), func(stored store.Node) store.Kept {
		before = stored
		return keep(stored.Kept, beat)
	})
	if err != nil {
		return nil, s.fail(err)
	}
	s.logBeat(before, after)
	if s.config.Features.EmptyReply {
		return answer(protocol.HeartbeatReply{}), nil
	}
	return answer(protocol.HeartbeatReply{
		NodeID:     beat.NodeID,
		ServerTime: new(time.Now().UTC()),
		Features:   s.features,
		NeedFull:   s.needFull(before.Kept, beat),
		Drain:      after.Drain,
	}), nil
}

func checkBeat(beat protocol.Heartbeat) error {
	switch {
	case !protocol.ValidNodeID(beat.NodeID):
		return newError(http.StatusUnprocessableEntity, "node_id: %q is no node id", clip(beat.NodeID))
	case len(beat.InstanceID) > maxInstanceID || len(beat.BootID) > maxInstanceID:
		return newError(http.StatusUnprocessableEntity, "instance_id and boot_id: at most %d bytes are taken", maxInstanceID)
	case max(len(beat.GPUs), len(beat.GPUStats), len(beat.GPUCollectFailures), len(beat.GPUCapabilities)) > maxCards:
		return newError(http.StatusUnprocessableEntity, "more than %d cards", maxCards)
	}
	return nil
}

// keep is what is known of a node after a heartbeat: what it says, and what
// earlier ones said and it leaves out.
func keep(before store.Kept, beat protocol.Heartbeat) store.Kept {
	after := before
	after.AgentVersion, after.AgentCommit, after.State = beat.AgentVersion, beat.AgentCommit, beat.State
	if beat.GPUs != nil {
		after.GPUs, after.InstanceID = beat.GPUs, beat.InstanceID
	}
	if !beat.ModelsUnchanged && (beat.CachedModels != nil || beat.DiscoveredModels != nil) {
		after.Models = &operator.Models{Digest: beat.ModelsDigest, Cached: beat.CachedModels, Discovered: beat.DiscoveredModels}
	}
	after.Cards = cards.Next(before.Cards, beat, after.GPUs)
	return after
}

// needFull reports whether the heartbeat left something out that the server
// does not have from this instance of the agent.
func (s *Server) needFull(before store.Kept, beat protocol.Heartbeat) bool {
	if beat.GPUs == nil && (!s.features.DeltaHeartbeat || before.GPUs == nil || before.InstanceID != beat.InstanceID) {
		return true
	}
	return beat.ModelsUnchanged && (!s.features.DeltaHeartbeat || before.Models == nil || before.Models.Digest != beat.ModelsDigest)
}

func (s *Server) logBeat(before, after store.Node) {
	log := s.log.With(zap.String("node_id", after.NodeID))
	was, is := before.Kept, after.Kept
	switch {
	case before.ReceivedAt == nil:
		log.Info("node registered", zap.String("agent_version", is.AgentVersion), zap.String("agent_commit", is.AgentCommit))
	case was.AgentVersion != is.AgentVersion || was.AgentCommit != is.AgentCommit:
		log.Info("agent version changed",
			zap.String("from_version", was.AgentVersion), zap.String("from_commit", was.AgentCommit),
			zap.String("agent_version", is.AgentVersion), zap.String("agent_commit", is.AgentCommit))
	}
	for key, card := range is.Cards.Cards {
		if had, known := was.Cards.Cards[key]; known && had.Lost != card.Lost {
			log.Warn("card lost or found", zap.Int("gpu_index", card.Index), zap.String("gpu_uuid", card.UUID),
				zap.Bool("lost", card.Lost), zap.String("problem", card.Problem))
		}
	}
}
