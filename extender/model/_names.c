/* Finds, looks up and sorts a whole request of node names, without a Python object for each.
 *
 * The optional fast half of extender/model/names.py, which documents the functions, and does the
 * same in Python where this was not built. Names arrive in a run, `a","b","c`: the text between the
 * first and the last quote of a JSON array of plain strings. `measure` finds where each name ends;
 * all else uses and checks these places. No function keeps a reference to an argument or lets
 * another thread run. Built against the stable ABI of Python 3.11.
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

#define SEPARATOR "\",\"" /* between two names */
#define SEPARATOR_LENGTH 3
#define END_SIZE 4 /* bytes of the uint32_t that says where a name ends */
#define BLOCK 64 /* bytes that are searched or copied at once */
#define BATCH 16 /* names whose slots and texts are fetched from memory at once */
#define MAX_CODES 256
#define NONE 0 /* the place in an empty slot, and the number of a name that was discarded */

typedef struct {
    const char *text;
    const char *ends; /* where each name ends in the text; perhaps not aligned */
    Py_ssize_t count;
    size_t length; /* of the text */
} Run;

static size_t end_of(const Run *run, Py_ssize_t i) {
    uint32_t end;
    memcpy(&end, run->ends + i * END_SIZE, END_SIZE);
    return end;
}

/* Checks what every walk relies on: the names are in the buffer, one behind the other, with room
 * for a separator in between. NULL with an exception set if they are not. */
static const Run *open_run(Run *run, const char *buffer, Py_ssize_t size, Py_ssize_t start,
                           const char *ends, Py_ssize_t ends_size) {
    int is_sound = start >= 0 && start <= size && ends_size % END_SIZE == 0;
    size_t least = 0; /* where the next name may end */
    *run = (Run){buffer, ends, ends_size / END_SIZE, 0};
    for (Py_ssize_t i = 0; i < run->count; i++) {
        run->length = end_of(run, i);
        is_sound &= run->length >= least;
        least = run->length + SEPARATOR_LENGTH;
    }
    if (!is_sound || run->length > (size_t)(size - start))
        return (void *)PyErr_Format(PyExc_ValueError, "the names are not in the buffer");
    run->text += start;
    return run;
}

/* The quotes in a block of text, a bit for each byte. `odd` gets a bit for any byte that does not
 * stand for itself in a JSON string: a control character, a backslash, what is not ASCII. */
static inline uint64_t find_quotes(const char *block, unsigned *odd) {
    uint64_t quotes = 0;
#ifdef __SSE2__
    __m128i strange = _mm_setzero_si128();
    for (int part = 0; part < BLOCK; part += 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(block + part));
        /* As signed numbers what is not ASCII is below zero. */
        strange = _mm_or_si128(strange, _mm_cmplt_epi8(bytes, _mm_set1_epi8(' ')));
        strange = _mm_or_si128(strange, _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\')));
        unsigned found = (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')));
        quotes |= (uint64_t)found << part;
    }
    *odd |= (unsigned)_mm_movemask_epi8(strange);
#else
    for (int i = 0; i < BLOCK; i++) {
        unsigned char byte = (unsigned char)block[i];
        quotes |= (uint64_t)(byte == '"') << i;
        *odd |= byte < ' ' || byte >= 0x80 || byte == '\\';
    }
#endif
    return quotes;
}

/* Notes where each name ends, and returns how many there are; -1 where the text isn't plain names
 * and separators. In plain text every quote ends a string or begins one. */
static Py_ssize_t find_ends(const char *text, size_t length, uint32_t *ends) {
    Py_ssize_t count = 0;
    uint64_t opening = 0; /* the quote in the next block that belongs to the last separator */
    unsigned odd = 0;
    char padded[BLOCK];
    for (size_t begin = 0; begin < length; begin += BLOCK) {
        const char *block = text + begin;
        if (length - begin < BLOCK) {
            memset(padded, ' ', BLOCK);
            block = memcpy(padded, block, length - begin);
        }
        uint64_t quotes = find_quotes(block, &odd) & ~opening;
        opening = 0;
        while (quotes != 0) {
            unsigned bit = (unsigned)__builtin_ctzll(quotes);
            size_t end = begin + bit;
            if (length - end < SEPARATOR_LENGTH || text[end + 1] != ',' || text[end + 2] != '"')
                return -1;
            ends[count++] = (uint32_t)end;
            quotes &= ~((uint64_t)5 << bit); /* both quotes of the separator */
            opening = bit + 2 < BLOCK ? 0 : (uint64_t)1 << (bit + 2 - BLOCK);
        }
    }
    ends[count++] = (uint32_t)length;
    return odd ? -1 : count;
}

static PyObject *measure(PyObject *Py_UNUSED(module), PyObject *args) {
    const char *buffer;
    Py_ssize_t size, start, end;
    if (!PyArg_ParseTuple(args, "y#nn:measure", &buffer, &size, &start, &end))
        return NULL;
    if (start < 0 || end < start || end > size || size > UINT32_MAX)
        return PyErr_Format(PyExc_ValueError, "no such part of the buffer");
    size_t length = (size_t)(end - start);
    uint32_t *ends = malloc((length / SEPARATOR_LENGTH + 1) * END_SIZE);
    if (ends == NULL)
        return PyErr_NoMemory();
    Py_ssize_t count = find_ends(buffer + start, length, ends);
    PyObject *result = count < 0 ? Py_NewRef(Py_None)
                                 : PyBytes_FromStringAndSize((char *)ends, count * END_SIZE);
    free(ends);
    return result;
}

/* A table of names: a name is searched for from the slot that its hash says to the first empty one.
 * Slots are small and most of them empty: they stay in the caches, and the first is often right. */
typedef struct {
    uint32_t tag; /* the upper half of the hash */
    uint32_t place; /* of the name's record */
} Slot;

typedef struct { uint32_t number, length; char text[]; } Record; /* of a name */

typedef struct {
    Slot *slots;
    char *records;     /* first one of zeros, then those of all names, discarded ones too */
    size_t used, room; /* bytes of them */
    uint32_t mask;     /* the number of slots, a power of two, less one; a third may be filled */
    uint32_t filled;   /* slots that are not empty */
    uint64_t keys[2];  /* of the hashes; whoever names nodes must not know them */
} Names;

typedef struct { PyObject_HEAD Names names; } NameTable;

static Record *record_of(const Names *names, const Slot *slot) {
    return (Record *)(names->records + slot->place);
}

static size_t size_of(size_t length) {
    return (sizeof(Record) + length + 3) & ~(size_t)3; /* the next record begins at a uint32_t */
}

/* Mixes 16 bytes into a hash. Both halves of the product are used: in the lower one alone, what two
 * names differ in at the upper end of a word stays there, whatever it is multiplied by. */
static uint64_t mix(const char *block, uint64_t key, uint64_t hash) {
    __extension__ typedef unsigned __int128 Product;
    uint64_t words[2];
    memcpy(words, block, sizeof(words));
    Product product = (Product)(words[0] ^ key) * (words[1] ^ hash);
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t hash_name(const Names *names, const char *name, size_t length) {
    char padded[16] = {0};
    uint64_t hash = names->keys[1] + length;
    if (length < sizeof(padded)) {
        name = memcpy(padded, name, length);
        length = sizeof(padded);
    }
    const char *last = name + length - sizeof(padded);
    for (; name < last; name += sizeof(padded))
        hash = mix(name, names->keys[0], hash);
    return mix(last, names->keys[0], hash); /* may overlap the block before */
}

/* The slot of a name, or the empty one where the search for it ended. */
static Slot *find(const Names *names, uint64_t hash, const char *name, size_t length) {
    for (uint32_t at = (uint32_t)hash & names->mask;; at = (at + 1) & names->mask) {
        Slot *slot = &names->slots[at];
        const Record *record = record_of(names, slot);
        if (slot->place == NONE
            || (slot->tag == hash >> 32 && record->length == length
                && memcmp(record->text, name, length) == 0))
            return slot;
    }
}

/* There must be room for the name. */
static void add(Names *names, const char *name, size_t length, uint32_t number) {
    uint64_t hash = hash_name(names, name, length);
    Slot *slot = find(names, hash, name, length);
    if (slot->place == NONE) {
        *slot = (Slot){(uint32_t)(hash >> 32), (uint32_t)names->used};
        record_of(names, slot)->length = (uint32_t)length;
        memcpy(record_of(names, slot)->text, name, length);
        names->used += size_of(length);
        names->filled++;
    }
    record_of(names, slot)->number = number;
}

static void free_names(Names *names) {
    free(names->slots);
    free(names->records);
    *names = (Names){0};
}

/* A copy with room for twice the names and one more of this length; NULL with MemoryError. */
static Names *copy_names(Names *copy, const Names *names, size_t length) {
    size_t slots = 16, live = 1, size = size_of(length);
    const Record *record;
    for (size_t at = sizeof(Record); at < names->used; at += size_of(record->length)) {
        record = (Record *)(names->records + at);
        size += record->number != NONE ? size_of(record->length) : 0;
        live += record->number != NONE;
    }
    while (slots < live * 4)
        slots *= 2;
    *copy = (Names){.room = size * 2 + sizeof(Record), .mask = (uint32_t)(slots - 1)};
    memcpy(copy->keys, names->keys, sizeof(copy->keys));
    copy->slots = slots <= UINT32_MAX / 2 ? calloc(slots, sizeof(Slot)) : NULL;
    copy->records = copy->room <= UINT32_MAX ? calloc(1, copy->room) : NULL;
    if (copy->slots == NULL || copy->records == NULL) {
        free_names(copy);
        return (void *)PyErr_NoMemory();
    }
    copy->used = sizeof(Record);
    for (size_t at = sizeof(Record); at < names->used; at += size_of(record->length)) {
        record = (Record *)(names->records + at);
        if (record->number != NONE)
            add(copy, record->text, record->length, record->number);
    }
    return copy;
}

/* A new table with a copy of these names. */
static PyObject *table_of(PyTypeObject *type, const Names *names) {
    NameTable *table = (NameTable *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (table != NULL && copy_names(&table->names, names, 0) == NULL)
        Py_CLEAR(table);
    return (PyObject *)table;
}

static PyObject *table_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(kwargs)) {
    const char *keys;
    Py_ssize_t size;
    Names none = {0};
    if (!PyArg_ParseTuple(args, "y#:NameTable", &keys, &size))
        return NULL;
    if (size != (Py_ssize_t)sizeof(none.keys))
        return PyErr_Format(PyExc_ValueError, "the keys must have 16 bytes");
    memcpy(none.keys, keys, sizeof(none.keys));
    return table_of(type, &none);
}

static PyObject *table_copy(NameTable *table, PyObject *Py_UNUSED(none)) {
    return table_of(Py_TYPE((PyObject *)table), &table->names);
}

static void table_dealloc(NameTable *table) {
    PyTypeObject *type = Py_TYPE((PyObject *)table);
    free_names(&table->names);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(table);
    Py_DECREF(type);
}

static PyObject *table_set(NameTable *table, PyObject *args) {
    const char *name;
    Py_ssize_t length;
    unsigned long number;
    Names *names = &table->names, fresh;
    if (!PyArg_ParseTuple(args, "y#k:set", &name, &length, &number))
        return NULL;
    if (number == NONE || number >= UINT32_MAX)
        return PyErr_Format(PyExc_ValueError, "the number is out of range");
    if ((uint64_t)names->filled * 3 >= (uint64_t)names->mask
        || names->room - names->used < size_of((size_t)length)) {
        if (copy_names(&fresh, names, (size_t)length) == NULL)
            return NULL;
        free_names(names);
        *names = fresh;
    }
    add(names, name, (size_t)length, (uint32_t)number);
    Py_RETURN_NONE;
}

static PyObject *table_discard(NameTable *table, PyObject *args) {
    const char *name;
    Py_ssize_t length;
    Names *names = &table->names;
    if (!PyArg_ParseTuple(args, "y#:discard", &name, &length))
        return NULL;
    Slot *slot = find(names, hash_name(names, name, (size_t)length), name, (size_t)length);
    record_of(names, slot)->number = NONE; /* as it is in the record of an empty slot */
    Py_RETURN_NONE;
}

static PyObject *table_translate(NameTable *table, PyObject *args) {
    const char *buffer, *ends, *codes;
    Py_ssize_t size, start, ends_size, n_codes;
    const Names names = table->names; /* a copy stays in registers */
    Run run;
    if (!PyArg_ParseTuple(args, "y#ny#y#:translate", &buffer, &size, &start, &ends, &ends_size,
                          &codes, &n_codes)
        || open_run(&run, buffer, size, start, ends, ends_size) == NULL)
        return NULL;
    if (n_codes < 1)
        return PyErr_Format(PyExc_ValueError, "at least one code is needed");
    PyObject *result = PyBytes_FromStringAndSize(NULL, run.count);
    if (result == NULL)
        return NULL;
    char *answer = PyBytes_AsString(result);
    const char *name = run.text, *sought[BATCH];
    size_t lengths[BATCH];
    uint64_t hashes[BATCH];
    /* For each name of a batch its slot is fetched, then the text that the slot points to. */
    for (Py_ssize_t done = 0, n = BATCH; done < run.count; done += n) {
        n = run.count - done < n ? run.count - done : n;
        for (Py_ssize_t i = 0; i < n; i++) {
            sought[i] = name;
            lengths[i] = end_of(&run, done + i) - (size_t)(name - run.text);
            hashes[i] = hash_name(&names, name, lengths[i]);
            __builtin_prefetch(&names.slots[hashes[i] & names.mask]);
            name += lengths[i] + SEPARATOR_LENGTH;
        }
        for (Py_ssize_t i = 0; i < n; i++)
            __builtin_prefetch(record_of(&names, &names.slots[hashes[i] & names.mask]));
        for (Py_ssize_t i = 0; i < n; i++) {
            const Slot *slot = find(&names, hashes[i], sought[i], lengths[i]);
            uint32_t number = record_of(&names, slot)->number;
            answer[done + i] = codes[number < (uint64_t)n_codes ? number : 0];
        }
    }
    return result;
}

static PyObject *tally(PyObject *Py_UNUSED(module), PyObject *args) {
    const unsigned char *codes;
    uint64_t counts[MAX_CODES] = {0};
    Py_ssize_t length;
    if (!PyArg_ParseTuple(args, "y#:tally", &codes, &length))
        return NULL;
    for (Py_ssize_t i = 0; i < length; i++)
        counts[codes[i]]++;
    return PyBytes_FromStringAndSize((char *)counts, sizeof(counts));
}

/* Copies a text, at most up to the limit, and returns its end; `readable` bytes may be read. A copy
 * of fixed length takes a few instructions; the next one overwrites the excess. */
static inline char *put(char *place, const char *limit, const char *text, size_t length,
                        size_t readable) {
    size_t room = (size_t)(limit - place);
    if (length <= BLOCK && readable >= BLOCK && room >= BLOCK) {
        memcpy(place, text, BLOCK);
        return place + length;
    }
    length = length < room ? length : room;
    memcpy(place, text, length);
    return place + length;
}

static PyObject *part(PyObject *Py_UNUSED(module), PyObject *args) {
    const char *buffer, *ends;
    const unsigned char *codes;
    Py_ssize_t size, start, ends_size, n_codes, cut;
    PyObject *endings, *written[2] = {NULL, NULL}, *result = NULL;
    int keep = 1;
    Run run;
    if (!PyArg_ParseTuple(args, "y#ny#y#O!n|p:part", &buffer, &size, &start, &ends, &ends_size,
                          &codes, &n_codes, &PyTuple_Type, &endings, &cut, &keep)
        || open_run(&run, buffer, size, start, ends, ends_size) == NULL)
        return NULL;
    Py_ssize_t kinds = PyTuple_Size(endings) + 1;
    if (n_codes != run.count || kinds > MAX_CODES || cut < 0)
        return PyErr_Format(PyExc_ValueError, "too few codes, or too many endings");
    /* What follows a name of each code: of code 0 a separator. */
    char *behind[MAX_CODES] = {SEPARATOR};
    Py_ssize_t lengths[MAX_CODES] = {SEPARATOR_LENGTH};
    for (Py_ssize_t i = 1; i < kinds; i++)
        if (PyBytes_AsStringAndSize(PyTuple_GetItem(endings, i - 1), &behind[i], &lengths[i]) < 0)
            return NULL;
    size_t begin = 0, readable = (size_t)(size - start), sizes[2] = {0, 0}, highest = 0;
    for (Py_ssize_t i = 0; i < run.count; i++) {
        size_t end = end_of(&run, i);
        sizes[codes[i] != 0] += end - begin + (size_t)lengths[codes[i]];
        highest = codes[i] > highest ? codes[i] : highest;
        begin = end + SEPARATOR_LENGTH;
    }
    if (highest >= (size_t)kinds)
        return PyErr_Format(PyExc_ValueError, "there must be an ending for each code");
    sizes[0] = keep && sizes[0] ? sizes[0] - SEPARATOR_LENGTH : 0;
    sizes[1] = sizes[1] > (size_t)cut ? sizes[1] - (size_t)cut : 0;
    char *places[2], *limits[2];
    for (int i = 0; i < 2; i++) {
        written[i] = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)sizes[i]);
        if (written[i] == NULL)
            goto done;
        places[i] = PyBytes_AsString(written[i]);
        limits[i] = places[i] + sizes[i];
    }
    begin = 0;
    for (Py_ssize_t i = 0; i < run.count; i++) {
        size_t end = end_of(&run, i), length = (size_t)lengths[codes[i]];
        int to = codes[i] != 0;
        if (keep || to) {
            places[to] = put(places[to], limits[to], run.text + begin, end - begin, readable - begin);
            places[to] = put(places[to], limits[to], behind[codes[i]], length, length);
        }
        begin = end + SEPARATOR_LENGTH;
    }
    result = PyTuple_Pack(2, written[0], written[1]);
done:
    Py_XDECREF(written[0]);
    Py_XDECREF(written[1]);
    return result;
}

static PyMethodDef table_methods[] = {
    {"set", (PyCFunction)table_set, METH_VARARGS, NULL},
    {"discard", (PyCFunction)table_discard, METH_VARARGS, NULL},
    {"copy", (PyCFunction)table_copy, METH_NOARGS, NULL},
    {"translate", (PyCFunction)table_translate, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL}};

static PyType_Slot table_slots[] = {
    {Py_tp_new, table_new}, {Py_tp_dealloc, table_dealloc}, {Py_tp_methods, table_methods}, {0, 0}};
static PyType_Spec table_spec = {
    "extender.model._names.NameTable", sizeof(NameTable), 0, Py_TPFLAGS_DEFAULT, table_slots};

static PyMethodDef functions[] = {
    {"measure", measure, METH_VARARGS, NULL},
    {"part", part, METH_VARARGS, NULL},
    {"tally", tally, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "_names", .m_size = -1, .m_methods = functions};

PyMODINIT_FUNC PyInit__names(void) {
    PyObject *module = PyModule_Create(&definition);
    PyObject *type = module == NULL ? NULL : PyType_FromSpec(&table_spec);
    if (type == NULL || PyModule_AddObjectRef(module, "NameTable", type) < 0)
        Py_CLEAR(module);
    Py_XDECREF(type);
    return module;
}
