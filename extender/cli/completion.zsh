#compdef PROGRAM
# Completion of PROGRAM in zsh: source <(PROGRAM completion zsh), or as _PROGRAM in the fpath.

FUNCTION() {
    local answer line
    local -a lines candidates
    answer=$(${(Q)words[1]/#\~/$HOME} __complete "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null) || return 1
    lines=("${(@f)answer}")
    local -i directive=${lines[-1]#:}
    lines=("${(@)lines[1,-2]}")
    for line in $lines; do
        # _describe wants WORD:WHAT IT IS.
        candidates+=("${${line%%$'\t'*}//:/\\:}${${(M)line%%$'\t'*}:+:${line#*$'\t'}}")
    done
    if (($#candidates)); then
        _describe PROGRAM candidates
    elif ((!(directive & 4))); then
        [[ $PREFIX == -*=* ]] && compset -P '*='
        _files
    fi
}

if [[ $funcstack[1] == _PROGRAM ]]; then
    FUNCTION "$@"
else
    compdef FUNCTION PROGRAM
fi
