# Completion of PROGRAM in fish: PROGRAM completion fish | source

function FUNCTION
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l answer ($words[1] __complete $words[2..-1] "$current" 2>/dev/null)
    or return
    set -l directive (string replace -r '^:' '' -- $answer[-1])
    set -e answer[-1]
    if test (count $answer) -gt 0
        printf '%s\n' $answer
    else if test $directive -eq 0
        set -l flag (string match -r '^-[^=]*=' -- $current)
        for path in (__fish_complete_path (string replace -r '^-[^=]*=' '' -- "$current"))
            echo "$flag$path"
        end
    end
end

complete -c PROGRAM -f -a '(FUNCTION)'
