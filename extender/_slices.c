/* Finds where a large JSON array or object can be cut, without the interpreter.
 *
 * The optional fast half of extender/wire/slices.py, which checks what it finds: this only tells
 * strings from what is outside of them and counts brackets. Other threads run meanwhile.
 *
 * Built against the stable ABI of Python 3.11. Nothing here keeps a reference to an argument.
 */
#define Py_LIMITED_API 0x030b0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdlib.h>

typedef struct {
    Py_ssize_t *places;
    size_t count, capacity;
} Cuts;

static int add(Cuts *cuts, Py_ssize_t place)
{
    if (cuts->count == cuts->capacity) {
        size_t capacity = cuts->capacity ? 2 * cuts->capacity : 256;
        Py_ssize_t *grown = realloc(cuts->places, capacity * sizeof(*grown));
        if (grown == NULL)
            return -1;
        cuts->places = grown;
        cuts->capacity = capacity;
    }
    cuts->places[cuts->count++] = place;
    return 0;
}

/* Behind the string whose opening quote is at `at`; the size if it does not end. */
static Py_ssize_t behind_string(const char *text, Py_ssize_t size, Py_ssize_t at)
{
    for (at++; at < size; at++) {
        if (text[at] == '"')
            return at + 1;
        if (text[at] == '\\')
            at++;
    }
    return size;
}

enum { NO_END, FOUND, NO_MEMORY };

static int find_cuts(Cuts *cuts, const char *text, Py_ssize_t size, Py_ssize_t start,
                     Py_ssize_t step)
{
    size_t depth = 0;
    Py_ssize_t cut = start, comma = start; /* the last cut, and the last place for one */
    for (Py_ssize_t at = start; at < size; at++) {
        char c = text[at];
        int ends = 0;
        if (c == '"') {
            at = behind_string(text, size, at) - 1;
            continue;
        }
        if (c == '[' || c == '{')
            depth++;
        else if (c == ']' || c == '}')
            ends = --depth == 0;
        if (!ends && !(c == ',' && depth == 1))
            continue;
        /* A large element is cut off on both sides. */
        int is_large = at - comma > step;
        if (is_large && comma != cut && add(cuts, comma) < 0)
            return NO_MEMORY;
        if (is_large || ends || at - cut > step) {
            if (add(cuts, at) < 0)
                return NO_MEMORY;
            cut = at;
        }
        if (ends)
            return FOUND;
        comma = at;
    }
    return NO_END;
}

static PyObject *as_list(const Cuts *cuts)
{
    PyObject *list = PyList_New((Py_ssize_t)cuts->count);
    for (size_t i = 0; list != NULL && i < cuts->count; i++) {
        PyObject *place = PyLong_FromSsize_t(cuts->places[i]);
        if (place == NULL || PyList_SetItem(list, (Py_ssize_t)i, place) < 0)
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *cuts_of(PyObject *module, PyObject *args)
{
    (void)module;
    Py_buffer buffer;
    Py_ssize_t start, step;
    if (!PyArg_ParseTuple(args, "y*nn:cuts", &buffer, &start, &step))
        return NULL;
    const char *text = buffer.buf;
    PyObject *result = NULL;
    if (start < 0 || start >= buffer.len || (text[start] != '[' && text[start] != '{')) {
        PyErr_SetString(PyExc_ValueError, "neither an array nor an object begins here");
        PyBuffer_Release(&buffer);
        return NULL;
    }
    Cuts cuts = {NULL, 0, 0};
    int found;
    Py_BEGIN_ALLOW_THREADS
    found = find_cuts(&cuts, text, buffer.len, start, step);
    Py_END_ALLOW_THREADS
    if (found == NO_MEMORY)
        PyErr_NoMemory();
    else if (found == FOUND)
        result = as_list(&cuts);
    else {
        Py_INCREF(Py_None);
        result = Py_None;
    }
    free(cuts.places);
    PyBuffer_Release(&buffer);
    return result;
}

static PyMethodDef functions[] = {
    {"cuts", cuts_of, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_slices", NULL, -1, functions, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__slices(void)
{
    return PyModule_Create(&definition);
}
