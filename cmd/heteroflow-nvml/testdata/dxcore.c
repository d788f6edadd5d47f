// What NVIDIA's generator asks of WSL2's libdxcore.so: one adapter, whose driver store is
// the directory STORE. The structures are those of Microsoft's d3dkmthk.h.
#include <string.h>
#include <wchar.h>

struct adapters {
	unsigned int count;
	struct { unsigned int handle, luid[2], sources, moves; } *list;
};

int D3DKMTEnumAdapters2(struct adapters *a) {
	a->count = 1;
	if (a->list) {
		memset(a->list, 0, sizeof *a->list);
		a->list->handle = 1;
	}
	return 0;
}

struct query {
	unsigned int handle, type;
	void *data;
	unsigned int size;
};

struct registry {
	unsigned int type, flags;
	wchar_t name[260];
	unsigned int value_type, adapter, output_size, status;
	union { unsigned long long number; wchar_t text; } output;
};

int D3DKMTQueryAdapterInfo(struct query *q) {
	static const wchar_t store[] = STORE;
	struct registry *r = q->data;

	if (q->type == 13) { // the version of the driver model
		*(unsigned int *)q->data = 3000;
		return 0;
	}
	if (q->type != 48)
		return -1;
	if (q->size >= sizeof *r + sizeof store)
		memcpy(&r->output, store, sizeof store);
	r->output_size = sizeof store;
	return 0;
}
