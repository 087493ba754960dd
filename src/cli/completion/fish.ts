/** A completion for fish 3 or later (fish's `complete`), a file in its `completions` folder. */
export function fishCompletion(): string {
  return `# Completion of workbook-mirror for fish, written by \`workbook-mirror completion fish\`.

# Asks what may stand at the cursor; fails where a file may, which fish itself knows how to complete.
function __workbook_mirror_ask
    set -l line
    for word in (commandline -opc)[2..]
        string match -qr '^~(/|$)' -- $word
        and set word $HOME(string sub -s 2 -- $word)
        set -a line $word
    end
    set -l current (commandline -ct)
    set -l answer (printf '%s\\0' $line "$current" | workbook-mirror completion words 2>/dev/null)
    switch "$answer[1]"
        case file
            return 1
        case folder
            set -l lead (string match -r -- '^--[^=]*=' $current)
            set -g __workbook_mirror_words "$lead"(__fish_complete_directories (string replace -- "$lead" '' $current))
        case '*'
            set -g __workbook_mirror_words $answer[2..]
    end
end

complete -c workbook-mirror -n __workbook_mirror_ask -f -a '$__workbook_mirror_words'
`;
}
