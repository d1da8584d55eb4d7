/* Finds the entries of a preemption's victims, and copies some of them, without an object for each.
 *
 * The other half of the extension is _names.c, and extender/names.py says what each function does.
 * Only what encoding/json makes of kube-scheduler's map[string]*MetaVictims is recognised, and of
 * that only plain strings: anything else is left to a decoder. So what is recognised needs no
 * second look, and its entries can be answered byte for byte.
 *
 * Nothing here keeps a reference to an argument.
 */
#define Py_LIMITED_API 0x030b0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define SEPARATOR "\",\""
#define SIZE_OF(literal) (sizeof(literal) - 1)
#define SHORTEST_ENTRY SIZE_OF("\"\":{\"Pods\":[],\"NumPDBViolations\":0}")
#define MOST_DIGITS 18 /* any number of so many fits into an int64 */
/* Bytes from which on other threads may run meanwhile. Less is walked through on the event loop
 * too, which would have to wait for them afterwards. */
#define LONG_WALK (1 << 20)

PyObject *find_victims(PyObject *module, PyObject *args);
PyObject *keep_entries(PyObject *module, PyObject *args);

/* What is left of a text. */
typedef struct {
    const char *at, *end;
} Rest;

#define PASS(rest, literal) pass_literal(rest, literal, SIZE_OF(literal))

static inline int pass_literal(Rest *rest, const char *literal, size_t length)
{
    if ((size_t)(rest->end - rest->at) < length || memcmp(rest->at, literal, length) != 0)
        return 0;
    rest->at += length;
    return 1;
}

/* Behind the quote that ends a string; 0 unless it is ASCII that stands for itself, without control
 * characters and escapes. */
static inline int pass_string(Rest *rest)
{
    const char *at = rest->at;
#ifdef __SSE2__
    const __m128i blank = _mm_set1_epi8(' '), backslash = _mm_set1_epi8('\\');
    const __m128i quote = _mm_set1_epi8('"');
    for (; rest->end - at >= 16; at += 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)at);
        /* As signed numbers what is not ASCII is below zero. */
        __m128i odd = _mm_or_si128(_mm_cmplt_epi8(bytes, blank), _mm_cmpeq_epi8(bytes, backslash));
        int found = _mm_movemask_epi8(_mm_or_si128(odd, _mm_cmpeq_epi8(bytes, quote)));
        if (found != 0) {
            at += __builtin_ctz((unsigned)found);
            break;
        }
    }
#endif
    /* The rest of it, or all where there is no SSE2. */
    for (; at < rest->end; at++) {
        unsigned char byte = (unsigned char)*at;
        if (byte == '"') {
            rest->at = at + 1;
            return 1;
        }
        if (byte < ' ' || byte >= 0x80 || byte == '\\')
            return 0;
    }
    return 0;
}

/* A number as Go writes it that is not negative and not near the end of int64. */
static inline int pass_number(Rest *rest)
{
    const char *first = rest->at;
    while (rest->at < rest->end && *rest->at >= '0' && *rest->at <= '9')
        rest->at++;
    Py_ssize_t digits = rest->at - first;
    return digits == 1 || (digits > 1 && digits <= MOST_DIGITS && *first != '0');
}

typedef struct {
    const char *text;
    size_t length;
} Name;

/* One entry: "name":{"Pods":[{"UID":"uid"}],"NumPDBViolations":0}. */
static inline int pass_entry(Rest *rest, Name *name)
{
    if (!PASS(rest, "\""))
        return 0;
    name->text = rest->at;
    if (!pass_string(rest))
        return 0;
    name->length = (size_t)(rest->at - name->text) - 1;
    if (!PASS(rest, ":{\"Pods\":["))
        return 0;
    if (!PASS(rest, "]")) {
        do {
            if (!PASS(rest, "{\"UID\":\"") || !pass_string(rest) || !PASS(rest, "}"))
                return 0;
        } while (PASS(rest, ","));
        if (!PASS(rest, "]"))
            return 0;
    }
    return PASS(rest, ",\"NumPDBViolations\":") && pass_number(rest) && PASS(rest, "}");
}

static inline int is_before(const Name *one, const Name *other)
{
    size_t common = one->length < other->length ? one->length : other->length;
    int order = memcmp(one->text, other->text, common);
    return order < 0 || (order == 0 && one->length < other->length);
}

/* The entries that were found. */
typedef struct {
    char *names; /* joined by separators; room for the whole text */
    size_t names_length;
    uint32_t *ends; /* where each entry ends, counted from the text's begin */
    size_t count, most;
} Found;

/* 0 for a text that isn't entries joined by commas, or has more of them than may be. Go sorts a
 * map's keys, so that a name which is not behind the one before it, or the same, is not Go's. */
static int find_entries(const char *text, size_t length, Found *found)
{
    Rest rest = {text, text + length};
    Name last = {NULL, 0}, name;
    while (rest.at < rest.end) {
        if (found->count == found->most || (found->count > 0 && !PASS(&rest, ","))
            || !pass_entry(&rest, &name) || (found->count > 0 && !is_before(&last, &name)))
            return 0;
        if (found->count > 0) {
            memcpy(found->names + found->names_length, SEPARATOR, SIZE_OF(SEPARATOR));
            found->names_length += SIZE_OF(SEPARATOR);
        }
        last = (Name){found->names + found->names_length, name.length}; /* near, and not far behind */
        memcpy(found->names + found->names_length, name.text, name.length);
        found->names_length += name.length;
        found->ends[found->count++] = (uint32_t)(rest.at - text);
    }
    return 1;
}

PyObject *find_victims(PyObject *module, PyObject *args)
{
    (void)module;
    const char *buffer;
    Py_ssize_t size, start, end, most;
    if (!PyArg_ParseTuple(args, "y#nnn:find_victims", &buffer, &size, &start, &end, &most))
        return NULL;
    if (start < 0 || end < start || end > size || size > UINT32_MAX || most < 0) {
        PyErr_SetString(PyExc_ValueError, "no such part of the buffer");
        return NULL;
    }
    size_t length = (size_t)(end - start);
    size_t room = (length + 1) / (SHORTEST_ENTRY + 1); /* each but the last has a comma behind it */
    Found found = {NULL, 0, NULL, 0, room < (size_t)most ? room : (size_t)most};
    found.names = malloc(length + 1);
    found.ends = malloc((found.most + 1) * sizeof(uint32_t));
    if (found.names == NULL || found.ends == NULL) {
        free(found.names);
        free(found.ends);
        return PyErr_NoMemory();
    }
    /* The buffer is read-only and stays where it is: the caller holds it. */
    PyThreadState *released = length >= LONG_WALK ? PyEval_SaveThread() : NULL;
    int is_sound = find_entries(buffer + start, length, &found);
    if (released != NULL)
        PyEval_RestoreThread(released);
    PyObject *result;
    if (is_sound) {
        result = Py_BuildValue("(y#y#)", found.names, (Py_ssize_t)found.names_length,
                               (const char *)found.ends,
                               (Py_ssize_t)(found.count * sizeof(uint32_t)));
    } else {
        Py_INCREF(Py_None);
        result = Py_None;
    }
    free(found.names);
    free(found.ends);
    return result;
}

/* Entries in a buffer, and for each whether it is kept. */
typedef struct {
    const char *text;
    const char *ends; /* uint32_t each, perhaps not aligned */
    const char *flags;
    size_t count;
} Entries;

static inline size_t end_of(const Entries *entries, size_t i)
{
    uint32_t end;
    memcpy(&end, entries->ends + i * sizeof(end), sizeof(end));
    return end;
}

/* Copies the kept entries with a comma behind each but the last; what lies one behind the other is
 * copied at once. */
static void copy_kept(const Entries *entries, char *place, const char *limit)
{
    size_t begin = 0;
    for (size_t i = 0; i < entries->count; i++) {
        size_t first = begin;
        while (i < entries->count && entries->flags[i])
            begin = end_of(entries, i++) + 1;
        size_t length = begin - first;
        if (length > (size_t)(limit - place)) /* behind the last one there need not be a comma */
            length = (size_t)(limit - place);
        memcpy(place, entries->text + first, length);
        place += length;
        if (i < entries->count)
            begin = end_of(entries, i) + 1;
    }
}

PyObject *keep_entries(PyObject *module, PyObject *args)
{
    (void)module;
    const char *buffer;
    Py_ssize_t size, start, ends_size, n_flags;
    Entries entries;
    if (!PyArg_ParseTuple(args, "y#ny#y#:keep_entries", &buffer, &size, &start, &entries.ends,
                          &ends_size, &entries.flags, &n_flags))
        return NULL;
    entries.count = (size_t)n_flags;
    int is_sound = start >= 0 && start <= size && ends_size % (Py_ssize_t)sizeof(uint32_t) == 0
                   && ends_size / (Py_ssize_t)sizeof(uint32_t) == n_flags;
    size_t begin = 0, length = 0;
    for (size_t i = 0; is_sound && i < entries.count; i++) {
        size_t end = end_of(&entries, i);
        is_sound = end >= begin && end <= (size_t)(size - start);
        length += entries.flags[i] ? end + 1 - begin : 0;
        begin = end + 1;
    }
    if (!is_sound) {
        PyErr_SetString(PyExc_ValueError, "the entries are not in the buffer");
        return NULL;
    }
    entries.text = buffer + start;
    length -= length > 0; /* the last comma */
    PyObject *result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)length);
    if (result == NULL)
        return NULL;
    char *place = PyBytes_AsString(result);
    /* The arguments are read-only, and nobody else has the result yet. */
    PyThreadState *released = length >= LONG_WALK ? PyEval_SaveThread() : NULL;
    copy_kept(&entries, place, place + length);
    if (released != NULL)
        PyEval_RestoreThread(released);
    return result;
}
