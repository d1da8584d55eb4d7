/* Looks up and sorts a whole request of node names at a time.
 *
 * The optional fast half of extender/names.py, which says what each function does, checks its
 * arguments' meaning, and does the same in Python where this was not built. Names arrive as one
 * run of bytes, `a","b","c`: what stands between the first and the last quote of a JSON array of
 * plain strings. No Python object is made for a name.
 *
 * Built against the stable ABI of Python 3.11. Nothing here keeps a reference to an argument.
 */
#define Py_LIMITED_API 0x030b0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SEPARATOR_LENGTH 3 /* "," with its quotes */
#define BATCH 32           /* names whose slots are fetched from memory at the same time */
#define MAX_GROUPS 256
#define MIN_SLOTS 16

enum { EMPTY = 0, LIVE = 1, DELETED = 2 };

typedef struct {
    uint32_t hash;   /* the upper half; the lower half chose the slot */
    uint32_t offset; /* of the name in the text */
    uint32_t id;
    uint16_t length;
    uint16_t state;
} Slot;

typedef struct {
    PyObject_HEAD
    Slot *slots;
    uint32_t mask;   /* slots - 1, a power of two less one */
    uint32_t live;
    uint32_t filled; /* live and deleted */
    char *text;      /* all names, one behind the other */
    size_t text_length, text_capacity;
} NameTable;

static uint64_t hash_name(const char *name, size_t length)
{
    uint64_t hash = 0x2545f4914f6cdd1dULL ^ (length * 0x9e3779b97f4a7c15ULL), word;
    for (; length >= 8; name += 8, length -= 8) {
        memcpy(&word, name, 8);
        hash = (hash ^ word) * 0xff51afd7ed558ccdULL;
        hash ^= hash >> 32;
    }
    word = 0;
    memcpy(&word, name, length);
    hash = (hash ^ word) * 0xc4ceb9fe1a85ec53ULL;
    /* Names differ in their last characters, the upper bytes of the word; slots are chosen by the
     * lower bits: all must reach all. */
    hash = (hash ^ (hash >> 32)) * 0x9e3779b97f4a7c15ULL;
    return hash ^ (hash >> 29);
}

/* The slot that has the name, or the empty one at which the search for it ended. There always is
 * an empty slot: at most two thirds are filled. */
static Slot *find(const NameTable *table, const char *name, size_t length, uint64_t hash)
{
    uint32_t place = (uint32_t)hash & table->mask;
    for (;; place = (place + 1) & table->mask) {
        Slot *slot = &table->slots[place];
        if (slot->state == EMPTY)
            return slot;
        if (slot->state == LIVE && slot->hash == (uint32_t)(hash >> 32)
            && slot->length == length && memcmp(table->text + slot->offset, name, length) == 0)
            return slot;
    }
}

/* Move the live names into new memory of the right size; -1 and MemoryError when there is none. */
static int rebuild(NameTable *table)
{
    uint64_t wanted = MIN_SLOTS;
    while (wanted < (uint64_t)table->live * 2 + 2)
        wanted *= 2;
    size_t text_length = 0;
    for (uint64_t i = 0; table->slots != NULL && i <= table->mask; i++)
        if (table->slots[i].state == LIVE)
            text_length += table->slots[i].length;
    size_t text_capacity = text_length + text_length / 2 + 1024;
    Slot *slots = calloc(wanted, sizeof(Slot));
    char *text = malloc(text_capacity);
    if (slots == NULL || text == NULL || wanted > UINT32_MAX / 2) {
        free(slots);
        free(text);
        PyErr_NoMemory();
        return -1;
    }
    NameTable grown = *table;
    grown.slots = slots;
    grown.mask = (uint32_t)(wanted - 1);
    grown.text = text;
    grown.text_length = 0;
    for (uint64_t i = 0; table->slots != NULL && i <= table->mask; i++) {
        const Slot *old = &table->slots[i];
        if (old->state != LIVE)
            continue;
        memcpy(text + grown.text_length, table->text + old->offset, old->length);
        Slot *slot = find(&grown, text + grown.text_length, old->length,
                          hash_name(text + grown.text_length, old->length));
        *slot = *old;
        slot->offset = (uint32_t)grown.text_length;
        grown.text_length += old->length;
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
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    NameTable *table = (NameTable *)allocate(type, 0); /* all zero */
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
    int is_full = (uint64_t)table->filled * 3 >= (uint64_t)table->mask * 2;
    if ((is_full || table->text_length + (size_t)length > table->text_capacity)
        && rebuild(table) < 0)
        return NULL;
    /* A rebuilt table has room for half as much text again, but perhaps not for a long name. */
    if (table->text_length + (size_t)length > table->text_capacity) {
        size_t capacity = table->text_length * 2 + (size_t)length;
        char *text = realloc(table->text, capacity);
        if (text == NULL)
            return PyErr_NoMemory();
        table->text = text;
        table->text_capacity = capacity;
    }
    if (table->text_length + (size_t)length > UINT32_MAX)
        return PyErr_NoMemory();
    uint64_t hash = hash_name(name, (size_t)length);
    Slot *slot = find(table, name, (size_t)length, hash);
    if (slot->state == EMPTY) {
        memcpy(table->text + table->text_length, name, (size_t)length);
        *slot = (Slot){(uint32_t)(hash >> 32), (uint32_t)table->text_length, 0,
                       (uint16_t)length, LIVE};
        table->text_length += (size_t)length;
        table->live++;
        table->filled++;
    }
    slot->id = (uint32_t)id;
    Py_RETURN_NONE;
}

static PyObject *table_discard(NameTable *table, PyObject *args)
{
    const char *name;
    Py_ssize_t length;
    if (!PyArg_ParseTuple(args, "y#:discard", &name, &length))
        return NULL;
    Slot *slot = find(table, name, (size_t)length, hash_name(name, (size_t)length));
    if (slot->state == LIVE) {
        slot->state = DELETED;
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
    copy->slots = malloc(slots);
    copy->text = malloc(table->text_capacity);
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

/* The length of the name at `name`, given where all names end. */
static size_t length_of(const char *name, const char *end)
{
    const char *quote = memchr(name, '"', (size_t)(end - name));
    return (size_t)((quote != NULL ? quote : end) - name);
}

/* Whether bytes stand for themselves in a JSON string, quotes and all: ASCII, no control character,
 * no backslash. Written so that compilers make vector instructions of it. */
static int is_plain(const unsigned char *text, size_t length)
{
    unsigned char odd = 0;
    for (size_t i = 0; i < length; i++)
        odd |= (unsigned char)((text[i] & 0x80) | (text[i] < 0x20) | (text[i] == '\\'));
    return !odd;
}

static PyObject *measure(PyObject *module, PyObject *args)
{
    (void)module;
    const char *name;
    Py_ssize_t length, count = 1;
    if (!PyArg_ParseTuple(args, "y#:measure", &name, &length))
        return NULL;
    if (!is_plain((const unsigned char *)name, (size_t)length))
        Py_RETURN_NONE;
    const char *end = name + length;
    for (;; count++) {
        const char *quote = memchr(name, '"', (size_t)(end - name));
        if (quote == NULL)
            return PyLong_FromSsize_t(count);
        if (end - quote < SEPARATOR_LENGTH || quote[1] != ',' || quote[2] != '"')
            Py_RETURN_NONE;
        name = quote + SEPARATOR_LENGTH;
    }
}

static PyObject *tally(PyObject *module, PyObject *args)
{
    (void)module;
    const unsigned char *codes;
    Py_ssize_t length;
    if (!PyArg_ParseTuple(args, "y#:tally", &codes, &length))
        return NULL;
    Py_ssize_t counts[4][MAX_GROUPS] = {{0}};
    for (Py_ssize_t i = 0; i < length; i++) /* four, so that a long run of one code does not wait */
        counts[i & 3][codes[i]]++;
    PyObject *result = PyDict_New();
    for (int code = 0; result != NULL && code < MAX_GROUPS; code++) {
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

static PyObject *table_translate(NameTable *table, PyObject *args)
{
    const char *name, *codes;
    Py_ssize_t length, count, n_codes;
    if (!PyArg_ParseTuple(args, "y#ny#:translate", &name, &length, &count, &codes, &n_codes))
        return NULL;
    if (n_codes < 1 || count < 1) {
        PyErr_SetString(PyExc_ValueError, "at least one code and one name are needed");
        return NULL;
    }
    const char *end = name + length;
    PyObject *result = PyBytes_FromStringAndSize(NULL, count);
    if (result == NULL)
        return NULL;
    char *answers = PyBytes_AsString(result);
    Py_ssize_t done = 0;
    while (done < count && name <= end) {
        const char *names[BATCH];
        size_t lengths[BATCH];
        uint64_t hashes[BATCH];
        int n = 0;
        for (; n < BATCH && done + n < count && name <= end; n++) {
            names[n] = name;
            lengths[n] = length_of(name, end);
            hashes[n] = hash_name(name, lengths[n]);
            __builtin_prefetch(&table->slots[(uint32_t)hashes[n] & table->mask]);
            name += lengths[n] + SEPARATOR_LENGTH;
        }
        for (int i = 0; i < n; i++)
            __builtin_prefetch(
                table->text + table->slots[(uint32_t)hashes[i] & table->mask].offset);
        for (int i = 0; i < n; i++) {
            const Slot *slot = find(table, names[i], lengths[i], hashes[i]);
            uint32_t id = slot->state == LIVE ? slot->id : 0;
            answers[done + i] = codes[id < (uint64_t)n_codes ? id : 0];
        }
        done += n;
    }
    if (done != count) {
        Py_DECREF(result);
        PyErr_SetString(PyExc_ValueError, "fewer names than counted");
        return NULL;
    }
    return result;
}

static PyObject *table_length(NameTable *table, PyObject *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLong(table->live);
}

/* The pieces of a tuple of bytes; how many, or -1 with an exception set. */
static Py_ssize_t read_pieces(PyObject *tuple, const char **texts, size_t *lengths)
{
    Py_ssize_t n = PyTuple_Size(tuple);
    if (n > MAX_GROUPS) {
        PyErr_SetString(PyExc_ValueError, "too many groups");
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        char *text;
        Py_ssize_t length;
        if (PyBytes_AsStringAndSize(PyTuple_GetItem(tuple, i), &text, &length) < 0)
            return -1;
        texts[i] = text;
        lengths[i] = (size_t)length;
    }
    return n;
}

static PyObject *distribute(PyObject *module, PyObject *args)
{
    (void)module;
    const char *first, *groups;
    Py_ssize_t length, count;
    PyObject *separators;
    if (!PyArg_ParseTuple(args, "y#y#O!:distribute", &first, &length, &groups, &count,
                          &PyTuple_Type, &separators))
        return NULL;
    size_t sizes[MAX_GROUPS] = {0}, counts[MAX_GROUPS] = {0}, between[MAX_GROUPS];
    const char *separator[MAX_GROUPS];
    char *places[MAX_GROUPS];
    Py_ssize_t n_groups = read_pieces(separators, separator, between);
    if (n_groups < 0)
        return NULL;
    const char *end = first + length, *name = first;
    size_t *lengths = malloc(((size_t)count + 1) * sizeof(size_t));
    if (lengths == NULL)
        return PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < count; i++) {
        unsigned char group = (unsigned char)groups[i];
        if (name > end || group >= n_groups) {
            free(lengths);
            PyErr_SetString(PyExc_ValueError, "more groups than names, or no such group");
            return NULL;
        }
        size_t n = lengths[i] = length_of(name, end);
        sizes[group] += n;
        counts[group]++;
        name += n + SEPARATOR_LENGTH;
    }
    PyObject *result = PyTuple_New(n_groups);
    for (Py_ssize_t g = 0; result != NULL && g < n_groups; g++) {
        size_t joints = counts[g] ? counts[g] - 1 : 0;
        PyObject *joined
            = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(sizes[g] + joints * between[g]));
        if (joined == NULL || PyTuple_SetItem(result, g, joined) < 0)
            Py_CLEAR(result);
        else
            places[g] = PyBytes_AsString(joined);
    }
    name = first;
    for (Py_ssize_t i = 0; result != NULL && i < count; i++) {
        unsigned char group = (unsigned char)groups[i];
        size_t n = lengths[i];
        memcpy(places[group], name, n);
        places[group] += n;
        if (--counts[group]) {
            memcpy(places[group], separator[group], between[group]);
            places[group] += between[group];
        }
        name += n + SEPARATOR_LENGTH;
    }
    free(lengths);
    return result;
}

static PyObject *follow(PyObject *module, PyObject *args)
{
    (void)module;
    const char *name, *codes;
    Py_ssize_t length, count;
    PyObject *tuple;
    if (!PyArg_ParseTuple(args, "y#y#O!:follow", &name, &length, &codes, &count, &PyTuple_Type,
                          &tuple))
        return NULL;
    const char *endings[MAX_GROUPS];
    size_t lengths[MAX_GROUPS];
    Py_ssize_t n_endings = read_pieces(tuple, endings, lengths);
    if (n_endings < 0)
        return NULL;
    size_t size = (size_t)length;
    for (Py_ssize_t i = 0; i < count; i++) {
        unsigned char code = (unsigned char)codes[i];
        if (code >= n_endings) {
            PyErr_SetString(PyExc_ValueError, "no such ending");
            return NULL;
        }
        size += lengths[code];
    }
    /* The separators are left out; each of them, and no less, stood between two names. */
    size_t separators = count > 1 ? (size_t)(count - 1) * SEPARATOR_LENGTH : 0;
    if (separators > size) {
        PyErr_SetString(PyExc_ValueError, "fewer names than codes");
        return NULL;
    }
    PyObject *result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(size - separators));
    if (result == NULL)
        return NULL;
    char *place = PyBytes_AsString(result), *last = place + (size - separators);
    const char *end = name + length;
    for (Py_ssize_t i = 0; i < count; i++) {
        unsigned char code = (unsigned char)codes[i];
        size_t n = name <= end ? length_of(name, end) : 0;
        if (name > end || n + lengths[code] > (size_t)(last - place)) {
            Py_DECREF(result);
            PyErr_SetString(PyExc_ValueError, "the names are not as many as the codes");
            return NULL;
        }
        memcpy(place, name, n);
        memcpy(place + n, endings[code], lengths[code]);
        place += n + lengths[code];
        name += n + SEPARATOR_LENGTH;
    }
    if (place != last) {
        Py_DECREF(result);
        PyErr_SetString(PyExc_ValueError, "the names are not as many as the codes");
        return NULL;
    }
    return result;
}

static PyMethodDef table_methods[] = {
    {"set", (PyCFunction)table_set, METH_VARARGS, NULL},
    {"discard", (PyCFunction)table_discard, METH_VARARGS, NULL},
    {"copy", (PyCFunction)table_copy, METH_NOARGS, NULL},
    {"translate", (PyCFunction)table_translate, METH_VARARGS, NULL},
    {"length", (PyCFunction)table_length, METH_NOARGS, NULL},
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
    {"distribute", distribute, METH_VARARGS, NULL},
    {"follow", follow, METH_VARARGS, NULL},
    {"measure", measure, METH_VARARGS, NULL},
    {"tally", tally, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_names", NULL, -1, functions, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__names(void)
{
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
