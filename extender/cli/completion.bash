# Completion of PROGRAM in bash: source <(PROGRAM completion bash)

FUNCTION() {
    local IFS=$' \t\n'
    # bash splits words at = and : too; what nothing stands between is joined again.
    local line=${COMP_LINE:0:COMP_POINT} word i
    local -a words=()
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if ((i)) && [[ -n $line && $line != [[:space:]]* || -z $line && ${words[-1]} == *[=:] ]]; then
            words[-1]+=$word
        else
            words+=("$word")
            line=${line#"${line%%[![:space:]]*}"}
        fi
        line=${line#"$word"}
    done
    local current=${words[-1]} answer directive
    answer=$("${words[0]/#\~/$HOME}" __complete "${words[@]:1}" 2>/dev/null) || return 0
    directive=${answer##*:}
    answer=${answer%:*}

    # Nor does bash replace what stands before the last = or :.
    local head=
    [[ $current == *=* && $COMP_WORDBREAKS == *=* ]] && head=${current%"${current##*=}"}
    [[ $current == *:* && $COMP_WORDBREAKS == *:* ]] && head=${current%"${current##*:}"}
    COMPREPLY=()
    while IFS=$'\t' read -r word _; do
        [[ -n $word ]] || continue
        printf -v word %q "${word#"$head"}"
        COMPREPLY+=("$word")
    done <<<"$answer"
    ((directive & 4)) && compopt +o default
    return 0
}

complete -o default -F FUNCTION PROGRAM
