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
#include <immintrin.h>
#endif

#define SEPARATOR_LENGTH 3 /* "," with its quotes */
#define BATCH 32           /* names whose slots are fetched from memory at the same time */
#define MAX_CODES 256
#define LONG_WALK (1 << 20) /* bytes of names that take longer than to let other threads run */
#define MIN_SLOTS 16
#define HUGE_PAGE ((size_t)1 << 21)

/* A name is its hash: 64 bits, by keys that nobody outside of this process knows. That two of
 * 65,000 names have the same one is as likely as 1 in 10^10, and that an unknown name has that of a
 * known one, 1 in 10^14. To compare the texts too would double the time of a look-up, since each
 * stands elsewhere in memory (docs/decisions/0015-names-by-their-hashes.md). */
typedef struct {
    uint64_t hash;
    uint32_t id; /* EMPTY, DELETED, or the name's */
    uint32_t unused;
} Slot;

enum { EMPTY = 0 };
#define DELETED UINT32_MAX

typedef struct {
    PyObject_HEAD
    Slot *slots;
    uint32_t mask;   /* slots - 1, a power of two less one */
    uint32_t live;
    uint32_t filled; /* live and deleted */
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

/* The keys of the hashes, drawn once a process. Whoever may create nodes could else choose names
 * that all land in one place of a table, or have one hash. */
static uint64_t keys[7];

static int draw_keys(void)
{
    char *drawn;
    Py_ssize_t length;
    PyObject *os = PyImport_ImportModule("os");
    PyObject *bytes = os == NULL ? NULL : PyObject_CallMethod(os, "urandom", "n",
                                                             (Py_ssize_t)sizeof(keys));
    int result = bytes == NULL ? -1 : PyBytes_AsStringAndSize(bytes, &drawn, &length);
    if (result == 0 && length == (Py_ssize_t)sizeof(keys))
        memcpy(keys, drawn, sizeof(keys));
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

/* Sixteen bytes as one number; `i` chooses the keys. */
static uint64_t mix(const char *place, int i, uint64_t more)
{
    return fold(word_at(place) ^ keys[i], word_at(place + 8) ^ keys[i + 1] ^ more);
}

/* The hash of a name that is shorter or longer than most. */
static uint64_t hash_unusual(const char *name, size_t length, uint64_t hash)
{
    if (length < 16) {
        uint64_t words[2] = {0, 0};
        memcpy(words, name, length);
        return fold(words[0] ^ keys[0], words[1] ^ keys[1] ^ hash);
    }
    const char *last = name + length - 16;
    for (; name < last; name += 16)
        hash = mix(name, 0, hash);
    return fold(mix(last, 2, hash), hash ^ keys[4]);
}

static inline uint64_t hash_name(const char *name, size_t length)
{
    uint64_t hash = keys[6] + length * 0x9e3779b97f4a7c15ULL;
    if (length - 16 > 32)
        return hash_unusual(name, length, hash);
    /* Blocks may overlap, so that no branch depends on the length: to guess it wrong would take
     * longer than all the rest. */
    size_t last = length - 16, middle = last < 16 ? last : 16;
    uint64_t rest = mix(name + middle, 2, 0) + mix(name + last, 4, 0);
    return fold(mix(name, 0, hash), rest ^ hash);
}

/* The slot that has the hash, or the empty one at which the search for it ended. There always is
 * an empty slot: at most half are filled, or names would often have to be searched for further. */
static Slot *find(const NameTable *table, uint64_t hash)
{
    for (uint32_t at = (uint32_t)hash & table->mask;; at = (at + 1) & table->mask) {
        Slot *slot = &table->slots[at];
        if (slot->id == EMPTY || (slot->hash == hash && slot->id != DELETED))
            return slot;
    }
}

/* Move the live names into new memory of the right size; -1 and MemoryError when there is none. */
static int rebuild(NameTable *table)
{
    uint64_t wanted = MIN_SLOTS;
    while (wanted < (uint64_t)table->live * 3)
        wanted *= 2;
    Slot *slots = wanted > UINT32_MAX / 2 ? NULL : allocate(wanted * sizeof(Slot));
    if (slots == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    memset(slots, 0, wanted * sizeof(Slot));
    NameTable grown = *table;
    grown.slots = slots;
    grown.mask = (uint32_t)(wanted - 1);
    for (uint64_t i = 0; table->slots != NULL && i <= table->mask; i++)
        if (table->slots[i].id != EMPTY && table->slots[i].id != DELETED)
            *find(&grown, table->slots[i].hash) = table->slots[i];
    free(table->slots);
    table->slots = slots;
    table->mask = grown.mask;
    table->filled = table->live;
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
    if (id == EMPTY || id >= DELETED) {
        PyErr_SetString(PyExc_ValueError, "the id is out of range");
        return NULL;
    }
    if ((uint64_t)table->filled * 2 > (uint64_t)table->mask && rebuild(table) < 0)
        return NULL;
    uint64_t hash = hash_name(name, (size_t)length);
    Slot *slot = find(table, hash);
    if (slot->id == EMPTY) {
        table->live++;
        table->filled++;
    }
    *slot = (Slot){hash, (uint32_t)id, 0};
    Py_RETURN_NONE;
}

static PyObject *table_discard(NameTable *table, PyObject *args)
{
    const char *name;
    Py_ssize_t length;
    if (!PyArg_ParseTuple(args, "y#:discard", &name, &length))
        return NULL;
    Slot *slot = find(table, hash_name(name, (size_t)length));
    if (slot->id != EMPTY) {
        slot->id = DELETED;
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
    size_t size = ((size_t)table->mask + 1) * sizeof(Slot);
    copy->slots = allocate(size);
    if (copy->slots == NULL) {
        Py_DECREF(copy);
        return PyErr_NoMemory();
    }
    memcpy(copy->slots, table->slots, size);
    copy->mask = table->mask;
    copy->live = table->live;
    copy->filled = table->filled;
    return (PyObject *)copy;
}

/* At most, of one block more than can be right. */
#define BLOCK 64
#define ROOM_FOR_ENDS(length) ((length) / SEPARATOR_LENGTH + 1 + BLOCK)

#define MANY_NAMES 2 /* that end in a block: most names have 30 characters or more */

/* How far a text was searched for the ends of names. */
typedef struct {
    uint32_t *next; /* where to note the next one */
    size_t at;
    size_t due; /* where the quote must be that ends a separator; 0 outside of one */
    int is_bad;
} Search;

#ifdef __SSE2__
/* What is in a block of text, a bit for each byte. */
typedef struct {
    uint64_t quotes, commas;
    int odd; /* whether there is a control character, a backslash, or what isn't ASCII */
} Marks;

static inline Marks narrow_marks(const char *block)
{
    Marks marks = {0, 0, 0};
    __m128i odd = _mm_setzero_si128();
    for (int part = 0; part < BLOCK; part += 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(block + part));
        __m128i quotes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('"'));
        __m128i commas = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(','));
        /* As signed numbers what is not ASCII is below zero. */
        odd = _mm_or_si128(odd, _mm_cmplt_epi8(bytes, _mm_set1_epi8(' ')));
        odd = _mm_or_si128(odd, _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\')));
        marks.quotes |= (uint64_t)(unsigned)_mm_movemask_epi8(quotes) << part;
        marks.commas |= (uint64_t)(unsigned)_mm_movemask_epi8(commas) << part;
    }
    marks.odd = _mm_movemask_epi8(odd);
    return marks;
}

/* Notes where names end, a bit for each byte of a block, and returns what is behind the last. No
 * branch depends on how many up to MANY_NAMES do, which would be a guess. */
static inline uint32_t *note_ends(uint64_t closing, uint32_t offset, uint32_t *next)
{
    for (int i = 0; i < MANY_NAMES; i++) {
        *next = offset + (unsigned)__builtin_ctzll(closing | (uint64_t)1 << (BLOCK - 1));
        next += closing != 0;
        closing &= closing - 1;
    }
    for (; closing != 0; closing &= closing - 1)
        *next++ = offset + (unsigned)__builtin_ctzll(closing);
    return next;
}

/* Searches the blocks of a text. */
static inline __attribute__((always_inline)) Search
search_blocks(const char *text, size_t length, uint32_t *ends, Marks (*marks_of)(const char *))
{
    Search search = {ends, 0, 0, 0};
    Marks before = {0, 0, 0};
    uint64_t closing_before = 0;
    int odd = 0;
    for (; search.at + BLOCK <= length; search.at += BLOCK) {
        Marks marks = marks_of(text + search.at);
        /* A quote behind a quote and a comma opens a name, all others close one. If each that
         * closes one is two before one that opens one, they take turns. */
        uint64_t opening = marks.quotes & (marks.quotes << 2 | before.quotes >> (BLOCK - 2))
                         & (marks.commas << 1 | before.commas >> (BLOCK - 1));
        uint64_t closing = marks.quotes ^ opening;
        odd |= marks.odd;
        if (opening != (closing << 2 | closing_before >> (BLOCK - 2))) {
            search.is_bad = 1;
            return search;
        }
        search.next = note_ends(closing, (uint32_t)search.at, search.next);
        before = marks;
        closing_before = closing;
    }
    /* What the last two bytes leave due. */
    switch (closing_before >> (BLOCK - 2)) {
    case 1:
        search.due = search.at;
        search.is_bad = !(before.commas >> (BLOCK - 1));
        break;
    case 2:
        search.due = search.at + 1;
        search.is_bad = text[search.at] != ',';
        break;
    case 3:
        search.is_bad = 1;
    }
    search.is_bad |= odd;
    return search;
}

static Search search_narrow(const char *text, size_t length, uint32_t *ends)
{
    return search_blocks(text, length, ends, narrow_marks);
}

static Search (*search)(const char *, size_t, uint32_t *) = search_narrow;

#if defined(__GNUC__) && !defined(NARROW)
__attribute__((target("avx2"))) static inline Marks wide_marks(const char *block)
{
    Marks marks = {0, 0, 0};
    __m256i odd = _mm256_setzero_si256();
    for (int part = 0; part < BLOCK; part += 32) {
        __m256i bytes = _mm256_loadu_si256((const __m256i *)(block + part));
        __m256i quotes = _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8('"'));
        __m256i commas = _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(','));
        odd = _mm256_or_si256(odd, _mm256_cmpgt_epi8(_mm256_set1_epi8(' '), bytes));
        odd = _mm256_or_si256(odd, _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8('\\')));
        marks.quotes |= (uint64_t)(unsigned)_mm256_movemask_epi8(quotes) << part;
        marks.commas |= (uint64_t)(unsigned)_mm256_movemask_epi8(commas) << part;
    }
    marks.odd = _mm256_movemask_epi8(odd);
    return marks;
}

__attribute__((target("avx2"))) static Search search_wide(const char *text, size_t length,
                                                          uint32_t *ends)
{
    return search_blocks(text, length, ends, wide_marks);
}

/* Of the processors that this can be built for, most have twice as wide registers. */
static void choose_search(void)
{
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2"))
        search = search_wide;
}
#else
static void choose_search(void)
{
}
#endif
#else
static Search search(const char *text, size_t length, uint32_t *ends)
{
    (void)text;
    (void)length;
    return (Search){ends, 0, 0, 0};
}

static void choose_search(void)
{
}
#endif

/* Notes where the names before a separator end, as offsets from the text's begin, and where the
 * text does; returns how many. -1 for a text that isn't names and separators: ASCII that stands for
 * itself in a JSON string, no control character, no backslash, no other quotes, and no name that is
 * a comma. There must be a byte behind the text, and ROOM_FOR_ENDS(length). */
static Py_ssize_t find_ends(const char *text, size_t length, uint32_t *ends)
{
    Search found = search(text, length, ends);
    if (found.is_bad)
        return -1;
    uint32_t *next = found.next;
    size_t i = found.at, due = found.due;
    unsigned char odd_byte = 0;
    /* The rest of it, or all where there is no SSE2. */
    for (; i < length; i++) {
        unsigned char byte = (unsigned char)text[i];
        odd_byte |= (unsigned char)((byte & 0x80) | (byte < ' ') | (byte == '\\'));
        if (byte != '"')
            continue;
        if (due == 0 ? text[i + 1] != ',' : i != due)
            return -1;
        if (due == 0)
            *next++ = (uint32_t)i;
        due = due == 0 ? i + SEPARATOR_LENGTH - 1 : 0;
    }
    if (odd_byte || due != 0)
        return -1;
    *next++ = (uint32_t)length;
    return next - ends;
}

static PyObject *measure(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *bytes; /* and no other buffer: behind bytes there always is one more */
    char *buffer;
    Py_ssize_t size, start, end;
    if (!PyArg_ParseTuple(args, "Snn:measure", &bytes, &start, &end)
        || PyBytes_AsStringAndSize(bytes, &buffer, &size) < 0)
        return NULL;
    if (start < 0 || end < start || end > size || size > UINT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "no such part of the buffer");
        return NULL;
    }
    size_t length = (size_t)(end - start);
    uint32_t *ends = malloc(ROOM_FOR_ENDS(length) * sizeof(uint32_t));
    if (ends == NULL)
        return PyErr_NoMemory();
    PyObject *result = NULL;
    PyThreadState *released = length >= LONG_WALK ? PyEval_SaveThread() : NULL;
    Py_ssize_t count = find_ends(buffer + start, length, ends);
    if (released != NULL)
        PyEval_RestoreThread(released);
    if (count >= 0) {
        result = PyBytes_FromStringAndSize((const char *)ends,
                                           count * (Py_ssize_t)sizeof(uint32_t));
    } else {
        Py_INCREF(Py_None);
        result = Py_None;
    }
    free(ends);
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

static size_t begin_of(const Run *run, Py_ssize_t i)
{
    return i ? (size_t)end_of(run, i - 1) + SEPARATOR_LENGTH : 0;
}

static int is_long(const Run *run)
{
    return run->count && end_of(run, run->count - 1) >= LONG_WALK;
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
    Py_ssize_t length, kinds;
    if (!PyArg_ParseTuple(args, "y#n:tally", &codes, &length, &kinds))
        return NULL;
    if (kinds < 0 || kinds > MAX_CODES) {
        PyErr_SetString(PyExc_ValueError, "a byte has no so many codes");
        return NULL;
    }
    Py_ssize_t counts[4][MAX_CODES] = {{0}};
    for (Py_ssize_t i = 0; i < length; i++) /* four, so that a long run of one code does not wait */
        counts[i & 3][codes[i]]++;
    PyObject *result = PyList_New(kinds);
    for (Py_ssize_t code = 0; result != NULL && code < kinds; code++) {
        Py_ssize_t n = counts[0][code] + counts[1][code] + counts[2][code] + counts[3][code];
        PyObject *value = PyLong_FromSsize_t(n);
        if (value == NULL || PyList_SetItem(result, code, value) < 0)
            Py_CLEAR(result);
    }
    return result;
}

/* Some names on their way through the table, by their hashes. */
typedef struct {
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
        batch->hashes[i] = hash_name(run->text + *begin, end - *begin);
        __builtin_prefetch(&table->slots[(uint32_t)batch->hashes[i] & table->mask]);
        *begin = end + SEPARATOR_LENGTH;
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
    /* Whoever looks up holds the snapshot, whose table is not changed before it is let go. */
    PyThreadState *released = is_long(&run) ? PyEval_SaveThread() : NULL;
    fetch_slots(table, &run, 0, &begin, &batches[0]);
    for (Py_ssize_t done = 0; done < run.count; done += BATCH) {
        const Batch *batch = &batches[done / BATCH & 1];
        Batch *next = &batches[(done / BATCH + 1) & 1];
        /* While the one batch is looked up, the slots of the next one are on their way. */
        fetch_slots(table, &run, done + batch->n, &begin, next);
        for (int i = 0; i < batch->n; i++) {
            uint32_t id = find(table, batch->hashes[i])->id;
            answers[done + i] = codes[id < (uint64_t)n_codes ? id : 0];
        }
    }
    if (released != NULL)
        PyEval_RestoreThread(released);
    return result;
}

/* How much is copied at once. A copy of fixed length takes a few instructions, and no guess at
 * which branch comes next; what is copied too much, the next copy overwrites. */
#define STRIDE 48
#define SHORT 256 /* names up to this are copied so */

/* What follows the names of each code from 1 on. */
typedef struct {
    const char *texts[MAX_CODES]; /* with `width` bytes each, that of code 0 as well */
    size_t lengths[MAX_CODES];
    Py_ssize_t count;
    size_t width; /* the longest one's, in whole strides */
    char *memory;
} Endings;

/* -1 with an exception set if there are too many, or one is no bytes, or shorter than what is to
 * be cut from the last. */
static int read_endings(Endings *endings, PyObject *tuple, Py_ssize_t cut)
{
    Py_ssize_t n = PyTuple_Size(tuple);
    *endings = (Endings){.count = n + 1};
    if (n > MAX_CODES - 1) {
        PyErr_SetString(PyExc_ValueError, "too many endings");
        return -1;
    }
    for (Py_ssize_t i = 1; i <= n; i++) {
        Py_ssize_t length = PyBytes_Size(PyTuple_GetItem(tuple, i - 1));
        if (length < 0)
            return -1;
        if (cut < 0 || length < cut) {
            PyErr_SetString(PyExc_ValueError, "more is to be cut than there is");
            return -1;
        }
        endings->lengths[i] = (size_t)length;
        while (endings->width < (size_t)length)
            endings->width += STRIDE;
    }
    endings->memory = calloc((size_t)n + 1, endings->width + 1);
    if (endings->memory == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i <= n; i++) {
        char *place = endings->memory + (size_t)i * endings->width;
        endings->texts[i] = place;
        if (i)
            memcpy(place, PyBytes_AsString(PyTuple_GetItem(tuple, i - 1)), endings->lengths[i]);
    }
    return 0;
}

/* In whole strides, at least one. */
static void copy_strides(char *to, const char *from, size_t length)
{
    size_t done = 0;
    do {
        memcpy(to + done, from + done, STRIDE);
        done += STRIDE;
    } while (done < length);
}

/* The names of a run in two groups, by number: those of code 0, and the others. */
typedef struct {
    uint32_t *numbers[2];
    Py_ssize_t counts[2];
    size_t sizes[2]; /* of all names, each with a separator or with its ending */
    int is_sound;    /* whether each code has an ending */
} Groups;

/* `numbers` has room for one more than all names in each of the two groups. */
static void group_names(Groups *groups, const Run *run, const unsigned char *codes,
                        const Endings *endings)
{
    uint32_t *passing = groups->numbers[0], *refused = groups->numbers[1];
    size_t begin = 0, highest = 0, sizes[2] = {0, 0};
    for (Py_ssize_t i = 0; i < run->count; i++) {
        unsigned char code = codes[i];
        size_t end = end_of(run, i), length = end - begin;
        size_t is_refused = (size_t)0 - (code != 0); /* all bits or none: a branch would be a guess */
        *passing = *refused = (uint32_t)i;
        passing += 1 - (code != 0);
        refused += code != 0;
        sizes[0] += ~is_refused & (length + SEPARATOR_LENGTH);
        sizes[1] += is_refused & (length + endings->lengths[code]);
        highest = code > highest ? code : highest;
        begin = end + SEPARATOR_LENGTH;
    }
    groups->counts[0] = passing - groups->numbers[0];
    groups->counts[1] = refused - groups->numbers[1];
    groups->sizes[0] = sizes[0];
    groups->sizes[1] = sizes[1];
    groups->is_sound = highest < (size_t)endings->count;
}

/* Where bytes are copied to. */
typedef struct {
    char *place;
    const char *limit;
} Output;

static void put(Output *output, const char *from, size_t length)
{
    size_t room = (size_t)(output->limit - output->place);
    if (length > room)
        length = room;
    memcpy(output->place, from, length);
    output->place += length;
}

/* Names of code 0, each with a separator. One branch depends on what a name is: whether it is long.
 * `readable` bytes follow the begin of the run's text. */
static void copy_passing(Output *output, const Run *run, size_t readable, const Groups *groups)
{
    const size_t spare = SHORT + STRIDE;
    for (Py_ssize_t i = 0; i < groups->counts[0]; i++) {
        Py_ssize_t number = groups->numbers[0][i];
        size_t begin = begin_of(run, number), length = end_of(run, number) - begin;
        const char *name = run->text + begin;
        if (length <= SHORT && readable - begin >= spare
            && (size_t)(output->limit - output->place) >= spare) {
            copy_strides(output->place, name, length + SEPARATOR_LENGTH);
            output->place += length + SEPARATOR_LENGTH;
        } else {
            put(output, name, length);
            put(output, "\",\"", SEPARATOR_LENGTH);
        }
    }
}

/* The other names, each with its ending. */
static void copy_refused(Output *output, const Run *run, size_t readable, const Groups *groups,
                         const unsigned char *codes, const Endings *endings)
{
    const size_t spare = SHORT + STRIDE + endings->width;
    for (Py_ssize_t i = 0; i < groups->counts[1]; i++) {
        Py_ssize_t number = groups->numbers[1][i];
        size_t begin = begin_of(run, number), length = end_of(run, number) - begin;
        const char *name = run->text + begin, *ending = endings->texts[codes[number]];
        size_t more = endings->lengths[codes[number]];
        if (length <= SHORT && readable - begin >= spare
            && (size_t)(output->limit - output->place) >= spare) {
            copy_strides(output->place, name, length);
            for (size_t done = 0; done < endings->width; done += STRIDE)
                memcpy(output->place + length + done, ending + done, STRIDE);
            output->place += length + more;
        } else {
            put(output, name, length);
            put(output, ending, more);
        }
    }
}

static PyObject *part(PyObject *module, PyObject *args)
{
    (void)module;
    const char *buffer, *ends;
    const unsigned char *codes;
    Py_ssize_t size, start, ends_size, n_codes, cut;
    int keep = 1;
    PyObject *tuple, *written[2] = {NULL, NULL}, *result = NULL;
    Run run;
    Endings endings;
    if (!PyArg_ParseTuple(args, "y#ny#y#O!n|p:part", &buffer, &size, &start, &ends, &ends_size,
                          &codes, &n_codes, &PyTuple_Type, &tuple, &cut, &keep)
        || open_run(&run, buffer, size, start, ends, ends_size) < 0
        || read_endings(&endings, tuple, cut) < 0)
        return NULL;
    if (n_codes != run.count) {
        PyErr_SetString(PyExc_ValueError, "there must be a code for each name");
        free(endings.memory);
        return NULL;
    }
    size_t room = (size_t)run.count + 1;
    uint32_t *numbers = malloc(2 * room * sizeof(*numbers));
    if (numbers == NULL)
        goto done;
    Groups groups = {.numbers = {numbers, numbers + room}};
    PyThreadState *released = is_long(&run) ? PyEval_SaveThread() : NULL;
    group_names(&groups, &run, codes, &endings);
    if (released != NULL)
        PyEval_RestoreThread(released);
    if (!groups.is_sound) {
        PyErr_SetString(PyExc_ValueError, "there must be an ending for each code");
        goto done;
    }
    groups.sizes[0] = keep && groups.sizes[0] ? groups.sizes[0] - SEPARATOR_LENGTH : 0;
    groups.sizes[1] -= groups.sizes[1] ? (size_t)cut : 0;
    Output outputs[2];
    for (int i = 0; i < 2; i++) {
        written[i] = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)groups.sizes[i]);
        if (written[i] == NULL)
            goto done;
        outputs[i].place = PyBytes_AsString(written[i]);
        outputs[i].limit = outputs[i].place + groups.sizes[i];
    }
    size_t readable = (size_t)(size - start);
    released = is_long(&run) ? PyEval_SaveThread() : NULL;
    if (keep)
        copy_passing(&outputs[0], &run, readable, &groups);
    copy_refused(&outputs[1], &run, readable, &groups, codes, &endings);
    if (released != NULL)
        PyEval_RestoreThread(released);
    result = PyTuple_Pack(2, written[0], written[1]);
done:
    Py_XDECREF(written[0]);
    Py_XDECREF(written[1]);
    free(numbers);
    free(endings.memory);
    return result != NULL || PyErr_Occurred() ? result : PyErr_NoMemory();
}

/* In _victims.c. */
PyObject *find_victims(PyObject *module, PyObject *args);
PyObject *keep_entries(PyObject *module, PyObject *args);

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
    {"find_victims", find_victims, METH_VARARGS, NULL},
    {"keep_entries", keep_entries, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_names", NULL, -1, functions, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__names(void)
{
    static int is_seeded; /* a table in use goes by the seeds it was filled with */
    if (!is_seeded && draw_keys() < 0)
        return NULL;
    is_seeded = 1;
    choose_search();
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
