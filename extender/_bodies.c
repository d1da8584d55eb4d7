/* The memory of a request's body: it is read into the bytes object that the application gets.
 *
 * The optional fast half of extender/http/body_memory.py. Python has no object that can be written
 * to and then becomes bytes without a copy.
 *
 * Built against the stable ABI of Python 3.11.
 */
#define Py_LIMITED_API 0x030b0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Views of it may outlive `finish`, so the bytes are kept until the last one is gone. */
typedef struct {
    PyObject_HEAD
    PyObject *content;
    int is_finished;
} Body;

static PyObject *body_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    Py_ssize_t size;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "n:Body", &size))
        return NULL;
    if (size < 0) {
        PyErr_SetString(PyExc_ValueError, "the size is negative");
        return NULL;
    }
    Body *body = (Body *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0); /* all zero */
    if (body == NULL)
        return NULL;
    body->content = PyBytes_FromStringAndSize(NULL, size);
    if (body->content == NULL)
        Py_CLEAR(body);
    return (PyObject *)body;
}

static void body_dealloc(Body *body)
{
    PyTypeObject *type = Py_TYPE((PyObject *)body);
    Py_XDECREF(body->content);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(body);
    Py_DECREF(type);
}

static int body_getbuffer(Body *body, Py_buffer *view, int flags)
{
    char *start;
    Py_ssize_t size;
    if (body->is_finished) {
        view->obj = NULL;
        PyErr_SetString(PyExc_BufferError, "the body is finished");
        return -1;
    }
    if (PyBytes_AsStringAndSize(body->content, &start, &size) < 0)
        return -1;
    return PyBuffer_FillInfo(view, (PyObject *)body, start, size, 0, flags);
}

static PyObject *body_finish(Body *body, PyObject *unused)
{
    (void)unused;
    body->is_finished = 1;
    Py_INCREF(body->content);
    return body->content;
}

static PyMethodDef body_methods[] = {
    {"finish", (PyCFunction)body_finish, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot body_slots[] = {
    {Py_tp_new, body_new},
    {Py_tp_dealloc, body_dealloc},
    {Py_bf_getbuffer, body_getbuffer},
    {Py_tp_methods, body_methods},
    {0, NULL},
};

static PyType_Spec body_spec = {
    "extender._bodies.Body", sizeof(Body), 0, Py_TPFLAGS_DEFAULT, body_slots,
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_bodies", NULL, -1, NULL, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__bodies(void)
{
    PyObject *module = PyModule_Create(&definition);
    PyObject *type = module == NULL ? NULL : PyType_FromSpec(&body_spec);
    if (type == NULL || PyModule_AddObjectRef(module, "Body", type) < 0) {
        Py_XDECREF(type);
        Py_XDECREF(module);
        return NULL;
    }
    Py_DECREF(type);
    return module;
}
