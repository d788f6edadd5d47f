/* A libnvidia-ml.so.1 without a driver: as many cards as the scenario says, in
 * the state that it says. The scenario is the file <library>.scenario; it is
 * read again by nvmlInit, nvmlDeviceGetCount and every wait for an event. Only
 * what heteroflow-nvml and NVIDIA's CDI generator call is here. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK = 0, INVALID = 2, UNSUPPORTED = 3, NOT_FOUND = 6, TIMEOUT = 10, LOST = 15, UNKNOWN = 999 };
enum { MAX_CARDS = 16, MAX_MIGS = 7, NONE = -1 };

typedef int ret;
typedef unsigned long long u64;
typedef struct card *card;
typedef struct { unsigned gpu, memory; } utilization;
typedef struct { u64 total, free, used; } memory_v1;
typedef struct { unsigned version; u64 total, reserved, free, used; } memory_v2;
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } pci;
typedef struct { unsigned field, scope; long long timestamp, latency; int type, result; union { unsigned ui; double d; } value; } field;
typedef struct { card device; u64 type, data; unsigned gi, ci; } event;

struct card {
	int index;
	int parent; /* of a MIG device, else NONE */
	int mig;    /* which of the parent's */
};

static struct card cards[MAX_CARDS], migs[MAX_CARDS][MAX_MIGS];
static struct state {
	int cards, init, count, wait, lost, hang, crash;
	int handle[MAX_CARDS], action[MAX_CARDS], mig[MAX_CARDS];
	int fail_card, fail_with;
	char fail_call[64];
	int xid_number, xid_card, xid_code;
} now;
static int delivered; /* number of the last xid */

/* Two threads come here: what one reads is what the other has just read, too,
 * unless the file has changed. */
static void scenario(void) {
	Dl_info self;
	struct state next = {.lost = NONE, .hang = NONE, .crash = NONE, .fail_card = NONE};
	char path[4096], line[256], word[64];
	dladdr((void *)scenario, &self);
	snprintf(path, sizeof path, "%s.scenario", self.dli_fname);
	FILE *f = fopen(path, "r");
	while (f && fgets(line, sizeof line, f)) {
		int a = 0, b = 0, c = 0;
		if (sscanf(line, "fail %d %d %63s", &a, &b, next.fail_call) == 3) { next.fail_card = a; next.fail_with = b; continue; }
		if (sscanf(line, "%63s %d %d %d", word, &a, &b, &c) < 2 || a < 0) continue;
		if (!strcmp(word, "cards")) next.cards = a < MAX_CARDS ? a : MAX_CARDS;
		if (!strcmp(word, "init")) next.init = a;
		if (!strcmp(word, "count")) next.count = a;
		if (!strcmp(word, "wait")) next.wait = a;
		if (!strcmp(word, "lost")) next.lost = a;
		if (!strcmp(word, "hang")) next.hang = a;
		if (!strcmp(word, "crash")) next.crash = a;
		if (!strcmp(word, "handle")) next.handle[a % MAX_CARDS] = b;
		if (!strcmp(word, "action")) next.action[a % MAX_CARDS] = b;
		if (!strcmp(word, "mig")) next.mig[a % MAX_CARDS] = b;
		if (!strcmp(word, "xid") && a > delivered && !next.xid_number) { next.xid_number = a; next.xid_card = b; next.xid_code = c; }
	}
	if (f) fclose(f);
	memcpy(&now, &next, sizeof now);
}

/* check is what every call about a card begins with. */
static ret check(card d, const char *call) {
	if (d->parent != NONE) return OK;
	if (d->index == now.lost) return LOST;
	if (d->index == now.fail_card && !strcmp(call, now.fail_call)) return now.fail_with;
	return OK;
}
#define CHECK(d) do { ret r_ = check(d, __func__); if (r_ != OK) return r_; } while (0)

ret nvmlInit_v2(void) {
	for (int i = 0; i < MAX_CARDS; i++) {
		cards[i] = (struct card){i, NONE, 0};
		for (int m = 0; m < MAX_MIGS; m++) migs[i][m] = (struct card){m, i, m};
	}
	scenario();
	printf("libnvidia-ml says something on standard output\n");
	fflush(stdout);
	return now.init;
}
ret nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(ret r) {
	switch (r) {
	case OK: return "Success";
	case 4: return "Insufficient Permissions";
	case NOT_FOUND: return "Not Found";
	case 9: return "Driver Not Loaded";
	case LOST: return "GPU is lost";
	case 16: return "GPU requires reset";
	case 18: return "Driver/library version mismatch";
	case UNKNOWN: return "Unknown Error";
	}
	return "Some Other Error";
}
ret nvmlSystemGetDriverVersion(char *b, unsigned n) { snprintf(b, n, "575.57.08"); return OK; }
ret nvmlSystemGetNVMLVersion(char *b, unsigned n) { snprintf(b, n, "12.575.57.08"); return OK; }
ret nvmlSystemGetCudaDriverVersion_v2(int *v) { *v = 12090; return OK; }
ret nvmlDeviceGetCount_v2(unsigned *n) { scenario(); *n = now.cards; return now.count; }
ret nvmlDeviceGetHandleByIndex_v2(unsigned i, card *d) {
	if (i >= (unsigned)now.cards) return INVALID;
	*d = &cards[i];
	return now.handle[i];
}

static void uuid(card d, char *b, unsigned n) {
	if (d->parent == NONE) snprintf(b, n, "GPU-%08x-52c8-4be1-a0c4-6f1e2d3c4b50", 0x3d0f7a10 + d->index);
	else snprintf(b, n, "MIG-%08x-0f1e-5a2b-8c3d-4e5f60718290", (d->parent << 8) + d->mig + 1);
}
/* As the real one, it knows a card by name, address and uuid after it was lost. */
ret nvmlDeviceGetUUID(card d, char *b, unsigned n) { uuid(d, b, n); return OK; }
ret nvmlDeviceGetName(card d, char *b, unsigned n) {
	if (d->parent != NONE) { snprintf(b, n, "NVIDIA H100 80GB HBM3 MIG 1g.10gb"); return OK; }
	if (d->index == now.fail_card) CHECK(d);
	snprintf(b, n, "NVIDIA H100 80GB HBM3");
	return OK;
}
ret nvmlDeviceGetPciInfo_v3(card d, pci *p) {
	memset(p, 0, sizeof *p);
	p->bus = 0x11 + 16 * d->index;
	snprintf(p->bus_id, sizeof p->bus_id, "00000000:%02X:00.0", p->bus);
	return OK;
}
ret nvmlDeviceGetHandleByUUID(const char *want, card *d) {
	char have[80];
	for (int i = 0; i < now.cards; i++) {
		uuid(*d = &cards[i], have, sizeof have);
		if (!strcmp(have, want)) return now.handle[i];
		for (int m = 0; m < now.mig[i]; m++) {
			uuid(*d = &migs[i][m], have, sizeof have);
			if (!strcmp(have, want)) return OK;
		}
	}
	return NOT_FOUND;
}
ret nvmlDeviceGetIndex(card d, unsigned *i) { CHECK(d); *i = d->index; return OK; }
ret nvmlDeviceGetMinorNumber(card d, unsigned *m) { CHECK(d); *m = now.cards - 1 - d->index; return OK; }
ret nvmlDeviceGetSerial(card d, char *b, unsigned n) { CHECK(d); snprintf(b, n, "16500000000%02d", d->index); return OK; }
ret nvmlDeviceGetVbiosVersion(card d, char *b, unsigned n) { CHECK(d); snprintf(b, n, "96.00.74.00.01"); return OK; }
ret nvmlDeviceGetBrand(card d, int *b) { CHECK(d); *b = 14; return OK; }

ret nvmlDeviceGetMemoryInfo(card d, memory_v1 *m) {
	CHECK(d);
	m->total = 81559ULL << 20;
	m->used = (u64)(139 + 1000 * d->index) << 20;
	m->free = m->total - m->used;
	return OK;
}
ret nvmlDeviceGetMemoryInfo_v2(card d, memory_v2 *m) {
	memory_v1 old;
	CHECK(d);
	nvmlDeviceGetMemoryInfo(d, &old);
	m->total = old.total; m->used = old.used; m->reserved = 1 << 20; m->free = old.free - m->reserved;
	return OK;
}
ret nvmlDeviceGetTemperature(card d, int sensor, unsigned *t) {
	(void)sensor;
	if (d->index == now.hang) for (;;) pause();
	if (d->index == now.crash) raise(SIGSEGV);
	CHECK(d);
	*t = 41 + d->index;
	return OK;
}
ret nvmlDeviceGetUtilizationRates(card d, utilization *u) {
	CHECK(d);
	if (now.mig[d->index]) return UNSUPPORTED;
	u->gpu = 10 * d->index; u->memory = 3;
	return OK;
}
ret nvmlDeviceGetPowerUsage(card d, unsigned *p) { CHECK(d); *p = 88120 + 1000 * d->index; return OK; }
ret nvmlDeviceGetEnforcedPowerLimit(card d, unsigned *p) { CHECK(d); *p = 700000; return OK; }
ret nvmlDeviceGetTotalEnergyConsumption(card d, u64 *e) { CHECK(d); *e = 1234567; return OK; }
ret nvmlDeviceGetCurrentClocksEventReasons(card d, u64 *r) { CHECK(d); *r = 1; return OK; }
ret nvmlDeviceGetTotalEccErrors(card d, int type, int counter, u64 *n) { (void)type; (void)counter; CHECK(d); *n = 0; return OK; }
ret nvmlDeviceGetRemappedRows(card d, unsigned *c, unsigned *u, unsigned *p, unsigned *f) { CHECK(d); *c = *u = *p = *f = 0; return OK; }
ret nvmlDeviceGetFieldValues(card d, int n, field *v) {
	CHECK(d);
	for (int i = 0; i < n; i++) {
		v[i].type = 1;
		v[i].result = v[i].field == 230 ? OK : UNSUPPORTED;
		v[i].value.ui = now.action[d->index];
	}
	return OK;
}

ret nvmlDeviceGetMigMode(card d, unsigned *mode, unsigned *pending) { CHECK(d); *mode = *pending = now.mig[d->index] > 0; return OK; }
ret nvmlDeviceGetMaxMigDeviceCount(card d, unsigned *n) { CHECK(d); *n = MAX_MIGS; return OK; }
ret nvmlDeviceGetMigDeviceHandleByIndex(card d, unsigned i, card *m) {
	CHECK(d);
	if (i >= (unsigned)now.mig[d->index]) return NOT_FOUND;
	*m = &migs[d->index][i];
	return OK;
}
ret nvmlDeviceIsMigDeviceHandle(card d, unsigned *is) { *is = d->parent != NONE; return OK; }
ret nvmlDeviceGetDeviceHandleFromMigDeviceHandle(card m, card *d) { *d = &cards[m->parent]; return OK; }
ret nvmlDeviceGetGpuInstanceId(card m, unsigned *id) { *id = m->mig + 7; return OK; }
ret nvmlDeviceGetComputeInstanceId(card m, unsigned *id) { (void)m; *id = 0; return OK; }

ret nvmlDeviceGetCpuAffinity(card d, unsigned n, unsigned long *set) {
	CHECK(d);
	memset(set, 0, n * sizeof *set);
	set[0] = d->index < now.cards / 2 ? 0xffffUL : 0xffff0000UL;
	return OK;
}
ret nvmlDeviceGetMemoryAffinity(card d, unsigned n, unsigned long *set, int scope) {
	(void)scope;
	CHECK(d);
	memset(set, 0, n * sizeof *set);
	set[0] = d->index < now.cards / 2 ? 1 : 2;
	return OK;
}
ret nvmlDeviceGetTopologyCommonAncestor(card a, card b, int *level) {
	CHECK(a); CHECK(b);
	*level = (a->index < now.cards / 2) == (b->index < now.cards / 2) ? 20 : 50;
	return OK;
}
ret nvmlDeviceGetNvLinkState(card d, unsigned link, unsigned *on) {
	CHECK(d);
	if (link >= 18) return INVALID;
	*on = now.cards == 8; /* only a whole node has a switch */
	return OK;
}
ret nvmlDeviceGetNvLinkRemoteDeviceType(card d, unsigned link, int *type) { (void)link; CHECK(d); *type = 2; return OK; }
ret nvmlDeviceGetNvLinkRemotePciInfo_v2(card d, unsigned link, pci *p) { (void)link; CHECK(d); memset(p, 0, sizeof *p); return OK; }

ret nvmlEventSetCreate(void **set) { *set = calloc(1, 1); return OK; }
ret nvmlEventSetFree(void *set) { free(set); return OK; }
ret nvmlDeviceGetSupportedEventTypes(card d, u64 *types) { CHECK(d); *types = 8; return OK; }
ret nvmlDeviceRegisterEvents(card d, u64 types, void *set) { (void)types; (void)set; CHECK(d); return OK; }
ret nvmlEventSetWait_v2(void *set, event *e, unsigned ms) {
	(void)set;
	for (unsigned waited = 0; waited < ms; waited += 10) {
		scenario();
		if (now.wait) return now.wait;
		if (now.xid_number) {
			delivered = now.xid_number;
			*e = (event){&cards[now.xid_card], 8, now.xid_code, 0xFFFFFFFF, 0xFFFFFFFF};
			return OK;
		}
		usleep(10000);
	}
	return TIMEOUT;
}
