"""The explain verb: why a pod fits or does not, where each cause comes from, what to do about it.

`explanation` judges; `origin` separates the class's part from the pod's; `requirements` lists what
the pod requires, `scores` what its nodes cost, `warnings` what else a person should know.
"""
