/** The shells that there is a completion for. */
export const SHELLS = ['bash', 'zsh', 'fish'] as const;

/**
 * Completion scripts, to be sourced or put where the shell looks for them. Each takes the line apart without expanding or running
 * anything on it, gives the words to `completion words`, each with a NUL behind it, and quotes the answers: names of targets come from the service, and a shell
 * must take them as plain text.
 */
export const SCRIPTS: Readonly<Record<(typeof SHELLS)[number], string>> = {
  /**
   * For bash 4 or later (bash(1), "Programmable Completion"). COMP_WORDS would have words end at each colon and equals sign. `read`
   * understands backslashes; a line with quotes or expansions gets no answer.
   */
  bash: `# Completion of workbook-mirror for bash 4 or later, written by \`workbook-mirror completion bash\`.
_workbook_mirror() {
  local line=\${COMP_LINE:0:COMP_POINT} plain cur word replaced kept
  local -a words=() found=()
  COMPREPLY=()
  plain=\${line//\\\\?/}
  [[ $plain != *[\\'\\"\\\`\\$\\;\\&\\|\\<\\>\\(\\)$'\\n']* ]] || return 0
  # The x keeps an empty last word.
  IFS=$' \\t' read -a words <<<"\${line}x"
  cur=\${words[-1]%x}
  unset 'words[-1]'
  mapfile -t found < <(printf '%s\\0' "\${words[@]:1}" "$cur" | workbook-mirror completion words 2>/dev/null)
  # Readline replaces the part of the word behind the last colon or equals sign.
  IFS= read replaced <<<"\${2-}"
  [[ $cur == *"$replaced" ]] || return 0
  kept=\${cur%"$replaced"}
  case \${found-} in
    file) compopt -o default ;;
    folder) compopt -o dirnames ;;
    words)
      for word in "\${found[@]:1}"; do
        word=\${word%%$'\\t'*}
        [[ $word == "$cur"* && $word == "$kept"?* ]] || continue
        printf -v word %q "\${word:\${#kept}}"
        # Behind a plain @ readline completes names of hosts.
        COMPREPLY+=("\${word//@/\\\\@}")
      done ;;
  esac
}

complete -F _workbook_mirror workbook-mirror
`,
  /** For zsh (zshcompsys(1)): a file \`_workbook-mirror\` in a folder of \`fpath\`, or sourced after \`compinit\`. */
  zsh: `#compdef workbook-mirror
# Completion of workbook-mirror for zsh, written by \`workbook-mirror completion zsh\`.

_workbook-mirror() {
  local -a answer found shown flat
  answer=("\${(@f)$(printf '%s\\0' "\${(@Q)words[2,CURRENT-1]}" "$PREFIX" | workbook-mirror completion words 2>/dev/null)}")
  case $answer[1] in
    file) compset -P '--*='; _files ;;
    folder) compset -P '--*='; _files -/ ;;
    words)
      found=("\${(@)answer[2,-1]%%$'\\t'*}")
      shown=("\${(@)answer[2,-1]//$'\\t'/  -- }")
      [[ "$answer[2]" != *$'\\t'* ]] || flat=(-l)
      compadd $flat -d shown -a found ;;
  esac
}

if [ "$funcstack[1]" = "_workbook-mirror" ]; then
  _workbook-mirror "$@"
else
  compdef _workbook-mirror workbook-mirror
fi
`,
  /** For fish 3 or later: a file in its \`completions\` folder. Where a file may be, fish completes it. */
  fish: `# Completion of workbook-mirror for fish, written by \`workbook-mirror completion fish\`.
function __workbook_mirror_ask
    set -l current (commandline -ct)
    set -l answer (printf '%s\\0' (commandline -opc)[2..] "$current" | workbook-mirror completion words 2>/dev/null)
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
`,
};
