/* Looks up and sorts a whole request of node names at a time.
 *
 * The optional fast half of extender/names.py, which says what each function does, checks its
 * arguments' meaning, and does the same in Python where this was not built. Names arrive in a run,
 * `a","b","c`: what stands between the first and the last quote of a JSON array of plain strings.
 * They are searched for once (measure) and found again by where each ends. No Python object is made
 * for a name.
 *
 * Built against the stable ABI of Python 3.11. Nothing here keeps a reference to an argument.
 */
#define Py_LIMITED_API 0x030b0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/mman.h>
#endif
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define SEPARATOR_LENGTH 3 /* "," with its quotes */
#define BATCH 32           /* names whose slots are fetched from memory at the same time */
#define MAX_CODES 256
#define MIN_SLOTS 16
#define HUGE_PAGE ((size_t)1 << 21)

/* What of a name is found first; the rest stands in the text. 65,000 names have a megabyte of
 * these, which is half of what a processor keeps near. */
typedef struct {
    uint32_t hash;  /* the upper half; the lower half chose the slot */
    uint32_t place; /* in the text, EMPTY or DELETED */
} Slot;

/* In the text, the name right behind it. */
typedef struct {
    uint32_t id;
    uint32_t length;
} Entry;

enum { EMPTY = 0, DELETED = 1, FIRST_PLACE = 2 };

typedef struct {
    PyObject_HEAD
    Slot *slots;
    uint32_t mask;   /* slots - 1, a power of two less one */
    uint32_t live;
    uint32_t filled; /* live and deleted */
    char *text;      /* entries, one behind the other */
    size_t text_length, text_capacity;
} NameTable;

/* Memory for what is read at random, in huge pages where there are any: of 65,000 names in small
 * ones, more pages are read in turn than a processor keeps the addresses of. */
static void *allocate(size_t size)
{
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    void *memory;
    if (size >= HUGE_PAGE / 2) /* all of a page, or it can't be one */
        size = (size + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
    if (size >= HUGE_PAGE && posix_memalign(&memory, HUGE_PAGE, size) == 0) {
        (void)madvise(memory, size, MADV_HUGEPAGE);
        return memory;
    }
#endif
    return malloc(size);
}

static uint64_t word_at(const char *place)
{
    uint64_t word;
    memcpy(&word, place, sizeof(word));
    return word;
}

/* Where a hash begins, and the odd numbers it multiplies by: drawn once a process. Whoever may
 * create nodes could else choose names that all land in one place of a table. */
static uint64_t seeds[3];

static int draw_seeds(void)
{
    char *drawn;
    Py_ssize_t length;
    PyObject *os = PyImport_ImportModule("os");
    PyObject *bytes = os == NULL ? NULL : PyObject_CallMethod(os, "urandom", "n",
                                                             (Py_ssize_t)sizeof(seeds));
    int result = bytes == NULL ? -1 : PyBytes_AsStringAndSize(bytes, &drawn, &length);
    if (result == 0 && length == (Py_ssize_t)sizeof(seeds)) {
        memcpy(seeds, drawn, sizeof(seeds));
        seeds[1] |= 1;
        seeds[2] |= 1;
    }
    Py_XDECREF(bytes);
    Py_XDECREF(os);
    return result;
}

/* Both halves of a product in one word. A multiplication alone keeps what two names differ in at
 * the upper end of a word where it is, whatever it multiplies by; its upper half does not. */
static uint64_t fold(uint64_t a, uint64_t b)
{
#ifdef __SIZEOF_INT128__
    __extension__ typedef unsigned __int128 Product;
    Product product = (Product)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
#else
    uint64_t low = (a & UINT32_MAX) * (b & UINT32_MAX), high = (a >> 32) * (b >> 32);
    uint64_t left = (a >> 32) * (b & UINT32_MAX), right = (a & UINT32_MAX) * (b >> 32);
    uint64_t middle = (low >> 32) + (left & UINT32_MAX) + (right & UINT32_MAX);
    high += (left >> 32) + (right >> 32) + (middle >> 32);
    return ((low & UINT32_MAX) | middle << 32) ^ high;
#endif
}

static uint64_t hash_name(const char *name, size_t length)
{
    uint64_t hash = seeds[0] + length * 0x9e3779b97f4a7c15ULL, word = 0;
    if (length >= 8) {
        const char *last = name + length - 8;
        for (; name < last; name += 8)
            hash = fold(hash ^ word_at(name), seeds[1]);
        word = word_at(last); /* some of it once more, rather than a word that is not full */
    } else {
        memcpy(&word, name, length);
    }
    return fold(hash ^ word, seeds[2]);
}

static Entry entry_at(const NameTable *table, uint32_t place)
{
    Entry entry;
    memcpy(&entry, table->text + place, sizeof(entry));
    return entry;
}

/* The slot that has the name, or the empty one at which the search for it ended. There always is
 * an empty slot: at most two thirds are filled. */
static Slot *find(const NameTable *table, const char *name, size_t length, uint64_t hash)
{
    uint32_t at = (uint32_t)hash & table->mask;
    for (;; at = (at + 1) & table->mask) {
        Slot *slot = &table->slots[at];
        if (slot->place == EMPTY)
            return slot;
        if (slot->hash == (uint32_t)(hash >> 32) && slot->place != DELETED
            && entry_at(table, slot->place).length == length
            && memcmp(table->text + slot->place + sizeof(Entry), name, length) == 0)
            return slot;
    }
}

/* Move the live names into new memory of the right size; -1 and MemoryError when there is none. */
static int rebuild(NameTable *table)
{
    uint64_t wanted = MIN_SLOTS;
    while (wanted < (uint64_t)table->live * 2 + 2)
        wanted *= 2;
    size_t text_length = FIRST_PLACE;
    for (uint64_t i = 0; table->slots != NULL && i <= table->mask; i++)
        if (table->slots[i].place >= FIRST_PLACE)
            text_length += sizeof(Entry) + entry_at(table, table->slots[i].place).length;
    size_t text_capacity = text_length + text_length / 2 + 1024;
    Slot *slots = allocate(wanted * sizeof(Slot));
    char *text = allocate(text_capacity);
    if (slots == NULL || text == NULL || wanted > UINT32_MAX / 2) {
        free(slots);
        free(text);
        PyErr_NoMemory();
        return -1;
    }
    memset(slots, 0, wanted * sizeof(Slot));
    NameTable grown = *table;
    grown.slots = slots;
    grown.mask = (uint32_t)(wanted - 1);
    grown.text = text;
    grown.text_length = FIRST_PLACE;
    for (uint64_t i = 0; table->slots != NULL && i <= table->mask; i++) {
        const Slot *old = &table->slots[i];
        if (old->place < FIRST_PLACE)
            continue;
        size_t length = entry_at(table, old->place).length;
        const char *name = table->text + old->place + sizeof(Entry);
        Slot *slot = find(&grown, name, length, hash_name(name, length));
        slot->hash = old->hash;
        slot->place = (uint32_t)grown.text_length;
        memcpy(text + grown.text_length, table->text + old->place, sizeof(Entry) + length);
        grown.text_length += sizeof(Entry) + length;
    }
    free(table->slots);
    free(table->text);
    table->slots = slots;
    table->mask = grown.mask;
    table->filled = table->live;
    table->text = text;
    table->text_length = grown.text_length;
    table->text_capacity = text_capacity;
    return 0;
}

static PyObject *table_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)args;
    (void)kwargs;
    allocfunc make = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    NameTable *table = (NameTable *)make(type, 0); /* all zero */
    if (table != NULL && rebuild(table) < 0) {
        Py_DECREF(table);
        return NULL;
    }
    return (PyObject *)table;
}

static void table_dealloc(NameTable *table)
{
    PyTypeObject *type = Py_TYPE((PyObject *)table);
    free(table->slots);
    free(table->text);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(table);
    Py_DECREF(type);
}

static PyObject *table_set(NameTable *table, PyObject *args)
{
    const char *name;
    Py_ssize_t length;
    unsigned long id;
    if (!PyArg_ParseTuple(args, "y#k:set", &name, &length, &id))
        return NULL;
    if (length > UINT16_MAX || id > UINT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "a name or an id is out of range");
        return NULL;
    }
    size_t needed = sizeof(Entry) + (size_t)length;
    int is_full = (uint64_t)table->filled * 3 >= (uint64_t)table->mask * 2;
    if ((is_full || table->text_length + needed > table->text_capacity) && rebuild(table) < 0)
        return NULL;
    /* A rebuilt table has room for half as much text again, but perhaps not for a long name. */
    if (table->text_length + needed > table->text_capacity) {
        size_t capacity = table->text_length * 2 + needed;
        char *text = realloc(table->text, capacity);
        if (text == NULL)
            return PyErr_NoMemory();
        table->text = text;
        table->text_capacity = capacity;
    }
    if (table->text_length + needed > UINT32_MAX)
        return PyErr_NoMemory();
    uint64_t hash = hash_name(name, (size_t)length);
    Slot *slot = find(table, name, (size_t)length, hash);
    Entry entry = {(uint32_t)id, (uint32_t)length};
    if (slot->place == EMPTY) {
        *slot = (Slot){(uint32_t)(hash >> 32), (uint32_t)table->text_length};
        memcpy(table->text + table->text_length + sizeof(entry), name, (size_t)length);
        table->text_length += needed;
        table->live++;
        table->filled++;
    }
    memcpy(table->text + slot->place, &entry, sizeof(entry));
    Py_RETURN_NONE;
}

static PyObject *table_discard(NameTable *table, PyObject *args)
{
    const char *name;
    Py_ssize_t length;
    if (!PyArg_ParseTuple(args, "y#:discard", &name, &length))
        return NULL;
    Slot *slot = find(table, name, (size_t)length, hash_name(name, (size_t)length));
    if (slot->place != EMPTY) {
        slot->place = DELETED;
        table->live--;
    }
    Py_RETURN_NONE;
}

static PyObject *table_copy(NameTable *table, PyObject *unused)
{
    (void)unused;
    PyTypeObject *type = Py_TYPE((PyObject *)table);
    NameTable *copy = (NameTable *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (copy == NULL)
        return NULL;
    size_t slots = ((size_t)table->mask + 1) * sizeof(Slot);
    copy->slots = allocate(slots);
    copy->text = allocate(table->text_capacity);
    if (copy->slots == NULL || copy->text == NULL) {
        Py_DECREF(copy);
        return PyErr_NoMemory();
    }
    memcpy(copy->slots, table->slots, slots);
    memcpy(copy->text, table->text, table->text_length);
    copy->mask = table->mask;
    copy->live = table->live;
    copy->filled = table->filled;
    copy->text_length = table->text_length;
    copy->text_capacity = table->text_capacity;
    return (PyObject *)copy;
}

/* Goes through the quotes of a text, each of which must belong to a separator. */
typedef struct {
    const char *text;
    size_t length;
    uint32_t *ends; /* room for length / SEPARATOR_LENGTH */
    Py_ssize_t count;
    size_t opening; /* where the quote that ends a separator must be; 0 outside of one */
} Walk;

/* Notes the next quote; 0 if it belongs to no separator. */
static int note_quote(Walk *walk, size_t quote)
{
    if (walk->opening != 0) {
        int is_opening = quote == walk->opening;
        walk->opening = 0;
        return is_opening;
    }
    walk->opening = quote + SEPARATOR_LENGTH - 1;
    if (walk->opening >= walk->length || walk->text[quote + 1] != ',')
        return 0;
    walk->ends[walk->count++] = (uint32_t)quote;
    return 1;
}

/* Notes where the names before a separator end, as offsets from the text's begin. 0 for a text that
 * isn't names and separators: ASCII that stands for itself in a JSON string, no control character,
 * no backslash, no other quotes. */
static int find_ends(Walk *walk)
{
    size_t i = 0;
#ifdef __SSE2__
    const __m128i blank = _mm_set1_epi8(' '), backslash = _mm_set1_epi8('\\');
    const __m128i quote = _mm_set1_epi8('"');
    __m128i odd = _mm_setzero_si128();
    for (; i + 16 <= walk->length; i += 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(walk->text + i));
        /* As signed numbers what is not ASCII is below zero. */
        odd = _mm_or_si128(odd, _mm_cmplt_epi8(bytes, blank));
        odd = _mm_or_si128(odd, _mm_cmpeq_epi8(bytes, backslash));
        for (unsigned found = (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, quote));
             found != 0; found &= found - 1)
            if (!note_quote(walk, i + (size_t)__builtin_ctz(found)))
                return 0;
    }
    if (_mm_movemask_epi8(odd) != 0)
        return 0;
#endif
    /* The rest of it, or all where there is no SSE2. */
    const char *place = walk->text + i, *end = walk->text + walk->length;
    unsigned char odd_byte = 0;
    for (const char *byte = place; byte < end; byte++)
        odd_byte |= (unsigned char)(((unsigned char)*byte & 0x80) | (*byte < ' ') | (*byte == '\\'));
    if (odd_byte)
        return 0;
    for (; (place = memchr(place, '"', (size_t)(end - place))) != NULL; place++)
        if (!note_quote(walk, (size_t)(place - walk->text)))
            return 0;
    return walk->opening == 0;
}

static PyObject *measure(PyObject *module, PyObject *args)
{
    (void)module;
    const char *buffer;
    Py_ssize_t size, start, end;
    if (!PyArg_ParseTuple(args, "y#nn:measure", &buffer, &size, &start, &end))
        return NULL;
    if (start < 0 || end < start || end > size || size > UINT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "no such part of the buffer");
        return NULL;
    }
    Walk walk = {buffer + start, (size_t)(end - start), NULL, 0, 0};
    walk.ends = malloc((walk.length / SEPARATOR_LENGTH + 1) * sizeof(uint32_t));
    if (walk.ends == NULL)
        return PyErr_NoMemory();
    PyObject *result = NULL;
    if (find_ends(&walk)) {
        walk.ends[walk.count++] = (uint32_t)walk.length;
        result = PyBytes_FromStringAndSize((const char *)walk.ends,
                                           walk.count * (Py_ssize_t)sizeof(uint32_t));
    } else {
        Py_INCREF(Py_None);
        result = Py_None;
    }
    free(walk.ends);
    return result;
}

/* The names of a run, as measure found them. */
typedef struct {
    const char *text; /* where the first one begins */
    const char *ends; /* uint32_t each, perhaps not aligned */
    Py_ssize_t count;
} Run;

static uint32_t end_of(const Run *run, Py_ssize_t i)
{
    uint32_t end;
    memcpy(&end, run->ends + (size_t)i * sizeof(end), sizeof(end));
    return end;
}

/* Checks what every walk relies on: names come one behind the other, with room for a separator in
 * between, and within the buffer. -1 with an exception set if not. */
static int open_run(Run *run, const char *buffer, Py_ssize_t size, Py_ssize_t start,
                    const char *ends, Py_ssize_t ends_size)
{
    if (start < 0 || start > size || ends_size < 0 || ends_size % (Py_ssize_t)sizeof(uint32_t)) {
        PyErr_SetString(PyExc_ValueError, "no such part of the buffer");
        return -1;
    }
    run->text = buffer + start;
    run->ends = ends;
    run->count = ends_size / (Py_ssize_t)sizeof(uint32_t);
    uint64_t begin = 0;
    int is_sound = 1;
    for (Py_ssize_t i = 0; i < run->count; i++) {
        uint32_t end = end_of(run, i);
        is_sound &= end >= begin;
        begin = (uint64_t)end + SEPARATOR_LENGTH;
    }
    size_t length = run->count ? end_of(run, run->count - 1) : 0;
    if (!is_sound || length > (size_t)(size - start)) {
        PyErr_SetString(PyExc_ValueError, "the names are not in the buffer");
        return -1;
    }
    return 0;
}

static PyObject *tally(PyObject *module, PyObject *args)
{
    (void)module;
    const unsigned char *codes;
    Py_ssize_t length;
    if (!PyArg_ParseTuple(args, "y#:tally", &codes, &length))
        return NULL;
    Py_ssize_t counts[4][MAX_CODES] = {{0}};
    for (Py_ssize_t i = 0; i < length; i++) /* four, so that a long run of one code does not wait */
        counts[i & 3][codes[i]]++;
    PyObject *result = PyDict_New();
    for (int code = 0; result != NULL && code < MAX_CODES; code++) {
        Py_ssize_t n = counts[0][code] + counts[1][code] + counts[2][code] + counts[3][code];
        if (n == 0)
            continue;
        PyObject *key = PyLong_FromLong(code), *value = PyLong_FromSsize_t(n);
        if (key == NULL || value == NULL || PyDict_SetItem(result, key, value) < 0)
            Py_CLEAR(result);
        Py_XDECREF(key);
        Py_XDECREF(value);
    }
    return result;
}

/* Some names on their way through the table. */
typedef struct {
    const char *names[BATCH];
    size_t lengths[BATCH];
    uint64_t hashes[BATCH];
    int n;
} Batch;

/* Hashes the next names of a run, `begin` being where the first of them does, and has their slots
 * fetched from memory. */
static void fetch_slots(const NameTable *table, const Run *run, Py_ssize_t from, size_t *begin,
                        Batch *batch)
{
    batch->n = run->count - from < BATCH ? (int)(run->count - from) : BATCH;
    for (int i = 0; i < batch->n; i++) {
        size_t end = end_of(run, from + i);
        batch->names[i] = run->text + *begin;
        batch->lengths[i] = end - *begin;
        batch->hashes[i] = hash_name(batch->names[i], batch->lengths[i]);
        __builtin_prefetch(&table->slots[(uint32_t)batch->hashes[i] & table->mask]);
        *begin = end + SEPARATOR_LENGTH;
    }
}

/* Has the entries of their first slots fetched. */
static void fetch_entries(const NameTable *table, const Batch *batch)
{
    for (int i = 0; i < batch->n; i++) {
        /* Numbers, not pointers: where the slot is empty there need not be so much text. */
        uintptr_t entry = (uintptr_t)table->text
                          + table->slots[(uint32_t)batch->hashes[i] & table->mask].place;
        __builtin_prefetch((const void *)entry);
        __builtin_prefetch((const void *)(entry + sizeof(Entry) + batch->lengths[i] - 1));
    }
}

static PyObject *table_translate(NameTable *table, PyObject *args)
{
    const char *buffer, *ends, *codes;
    Py_ssize_t size, start, ends_size, n_codes;
    Run run;
    if (!PyArg_ParseTuple(args, "y#ny#y#:translate", &buffer, &size, &start, &ends, &ends_size,
                          &codes, &n_codes)
        || open_run(&run, buffer, size, start, ends, ends_size) < 0)
        return NULL;
    if (n_codes < 1) {
        PyErr_SetString(PyExc_ValueError, "at least one code is needed");
        return NULL;
    }
    PyObject *result = PyBytes_FromStringAndSize(NULL, run.count);
    if (result == NULL)
        return NULL;
    char *answers = PyBytes_AsString(result);
    Batch batches[2];
    size_t begin = 0;
    fetch_slots(table, &run, 0, &begin, &batches[0]);
    fetch_entries(table, &batches[0]);
    for (Py_ssize_t done = 0; done < run.count; done += BATCH) {
        const Batch *batch = &batches[done / BATCH & 1];
        Batch *next = &batches[(done / BATCH + 1) & 1];
        /* While the one batch is compared, what the next one needs is on its way. */
        fetch_slots(table, &run, done + batch->n, &begin, next);
        for (int i = 0; i < batch->n; i++) {
            const Slot *slot = find(table, batch->names[i], batch->lengths[i], batch->hashes[i]);
            uint32_t id = slot->place != EMPTY ? entry_at(table, slot->place).id : 0;
            answers[done + i] = codes[id < (uint64_t)n_codes ? id : 0];
        }
        fetch_entries(table, next);
    }
    return result;
}

/* What follows each code's names: a separator for code 0, else one of a tuple of bytes. */
typedef struct {
    const char *texts[MAX_CODES];
    size_t lengths[MAX_CODES];
    Py_ssize_t count;
} Endings;

/* -1 with an exception set if there are too many, or one is no bytes, or shorter than what is to
 * be cut from the last. */
static int read_endings(Endings *endings, PyObject *tuple, Py_ssize_t cut)
{
    Py_ssize_t n = PyTuple_Size(tuple);
    if (n > MAX_CODES - 1) {
        PyErr_SetString(PyExc_ValueError, "too many endings");
        return -1;
    }
    endings->texts[0] = "\",\"";
    endings->lengths[0] = SEPARATOR_LENGTH;
    endings->count = n + 1;
    for (Py_ssize_t i = 0; i < n; i++) {
        char *text;
        Py_ssize_t length;
        if (PyBytes_AsStringAndSize(PyTuple_GetItem(tuple, i), &text, &length) < 0)
            return -1;
        if (cut < 0 || length < cut) {
            PyErr_SetString(PyExc_ValueError, "more is to be cut than there is");
            return -1;
        }
        endings->texts[i + 1] = text;
        endings->lengths[i + 1] = (size_t)length;
    }
    return 0;
}

static PyObject *part(PyObject *module, PyObject *args)
{
    (void)module;
    const char *buffer, *ends;
    const unsigned char *codes;
    Py_ssize_t size, start, ends_size, n_codes, cut;
    PyObject *tuple;
    Run run;
    Endings endings;
    if (!PyArg_ParseTuple(args, "y#ny#y#O!n:part", &buffer, &size, &start, &ends, &ends_size,
                          &codes, &n_codes, &PyTuple_Type, &tuple, &cut)
        || open_run(&run, buffer, size, start, ends, ends_size) < 0
        || read_endings(&endings, tuple, cut) < 0)
        return NULL;
    if (n_codes != run.count) {
        PyErr_SetString(PyExc_ValueError, "there must be a code for each name");
        return NULL;
    }
    size_t sizes[2] = {0, 0}, begin = 0;
    for (Py_ssize_t i = 0; i < run.count; i++) {
        unsigned char code = codes[i];
        size_t end = end_of(&run, i);
        if (code >= endings.count) {
            PyErr_SetString(PyExc_ValueError, "no such ending");
            return NULL;
        }
        sizes[code != 0] += end - begin + endings.lengths[code];
        begin = end + SEPARATOR_LENGTH;
    }
    sizes[0] -= sizes[0] ? SEPARATOR_LENGTH : 0;
    sizes[1] -= sizes[1] ? (size_t)cut : 0;
    PyObject *written[2] = {NULL, NULL};
    char *places[2];
    const char *limits[2];
    for (int i = 0; i < 2; i++) {
        written[i] = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)sizes[i]);
        if (written[i] == NULL) {
            Py_XDECREF(written[0]);
            return NULL;
        }
        places[i] = PyBytes_AsString(written[i]);
        limits[i] = places[i] + sizes[i];
    }
    begin = 0;
    for (Py_ssize_t i = 0; i < run.count; i++) {
        unsigned char code = codes[i];
        int which = code != 0;
        size_t end = end_of(&run, i), length = endings.lengths[code];
        char *place = places[which] + (end - begin);
        memcpy(places[which], run.text + begin, end - begin);
        if (length > (size_t)(limits[which] - place))
            length = (size_t)(limits[which] - place); /* the last one's */
        memcpy(place, endings.texts[code], length);
        places[which] = place + length;
        begin = end + SEPARATOR_LENGTH;
    }
    PyObject *result = PyTuple_Pack(2, written[0], written[1]);
    Py_DECREF(written[0]);
    Py_DECREF(written[1]);
    return result;
}

static PyMethodDef table_methods[] = {
    {"set", (PyCFunction)table_set, METH_VARARGS, NULL},
    {"discard", (PyCFunction)table_discard, METH_VARARGS, NULL},
    {"copy", (PyCFunction)table_copy, METH_NOARGS, NULL},
    {"translate", (PyCFunction)table_translate, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot table_slots[] = {
    {Py_tp_new, table_new},
    {Py_tp_dealloc, table_dealloc},
    {Py_tp_methods, table_methods},
    {0, NULL},
};

static PyType_Spec table_spec = {
    "extender._names.NameTable", sizeof(NameTable), 0, Py_TPFLAGS_DEFAULT, table_slots,
};

static PyMethodDef functions[] = {
    {"measure", measure, METH_VARARGS, NULL},
    {"part", part, METH_VARARGS, NULL},
    {"tally", tally, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_names", NULL, -1, functions, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__names(void)
{
    static int is_seeded; /* a table in use goes by the seeds it was filled with */
    if (!is_seeded && draw_seeds() < 0)
        return NULL;
    is_seeded = 1;
    PyObject *module = PyModule_Create(&definition);
    if (module == NULL)
        return NULL;
    PyObject *type = PyType_FromSpec(&table_spec);
    if (type == NULL || PyModule_AddObjectRef(module, "NameTable", type) < 0) {
        Py_XDECREF(type);
        Py_DECREF(module);
        return NULL;
    }
    Py_DECREF(type);
    return module;
}
