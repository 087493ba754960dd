/** The supported shells. */
export const SHELLS = ['bash', 'zsh', 'fish'] as const;

/**
 * Completion scripts, to be sourced or put where the shell looks for them. Each splits the line without expanding or running
 * anything on it, passes the words to `completion words`, each followed by a NUL, and quotes the answers, a word a line: names of
 * targets come from the service, and a shell must take them as plain text. Without an answer, the shell completes files.
 */
export const SCRIPTS: Readonly<Record<(typeof SHELLS)[number], string>> = {
  /**
   * For bash 4 or later (bash(1), "Programmable Completion"). COMP_WORDS would split words at each colon and equals sign. `read`
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
  for word in "\${found[@]}"; do
    [[ $word == "$cur"* && $word == "$kept"?* ]] || continue
    printf -v word %q "\${word:\${#kept}}"
    # Behind a plain @ readline completes names of hosts.
    COMPREPLY+=("\${word//@/\\\\@}")
  done
}

complete -o default -F _workbook_mirror workbook-mirror
`,
  /** For zsh (zshcompsys(1)): a file \`_workbook-mirror\` in a folder of \`fpath\`, or sourced after \`compinit\`. */
  zsh: `#compdef workbook-mirror
# Completion of workbook-mirror for zsh, written by \`workbook-mirror completion zsh\`.

_workbook-mirror() {
  local -a found
  found=("\${(@f)$(printf '%s\\0' "\${(@Q)words[2,CURRENT-1]}" "$PREFIX" | workbook-mirror completion words 2>/dev/null)}")
  if [[ -n "$found" ]]; then
    compadd -a found
  else
    compset -P '--*='
    _files
  fi
}

if [ "$funcstack[1]" = "_workbook-mirror" ]; then
  _workbook-mirror "$@"
else
  compdef _workbook-mirror workbook-mirror
fi
`,
  /** For fish 3 or later: a file in its \`completions\` folder. If a file may follow, fish completes it. */
  fish: `# Completion of workbook-mirror for fish, written by \`workbook-mirror completion fish\`.
function __workbook_mirror_ask
    set -g __workbook_mirror_words (printf '%s\\0' (commandline -opc)[2..] (commandline -ct) | workbook-mirror completion words 2>/dev/null)
    test -n "$__workbook_mirror_words"
end

complete -c workbook-mirror -n __workbook_mirror_ask -f -a '$__workbook_mirror_words'
`,
};
