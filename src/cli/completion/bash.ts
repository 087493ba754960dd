/**
 * A completion for bash 4 or later (bash(1), "Programmable Completion"), to be sourced or put where bash-completion finds it.
 * It neither expands nor runs anything that is on the line, and what it offers is plain text to bash, whatever a name holds.
 */
export function bashCompletion(): string {
  return `# Completion of workbook-mirror for bash 4 or later, written by \`workbook-mirror completion bash\`.
${READING}${OFFERING}
_workbook_mirror() {
  local cur='' quote='' kept=''
  local -a words=() found=()
  COMPREPLY=()
  _workbook_mirror_read "$2" || return 0
  mapfile -t found < <(printf '%s\\0' "\${words[@]:1}" "$cur" | workbook-mirror completion words 2>/dev/null)
  case \${found-} in
    file) compopt -o default ;;
    folder) compopt -o dirnames ;;
    words) _workbook_mirror_offer "\${found[@]:1}" ;;
  esac
}

complete -F _workbook_mirror workbook-mirror
`;
}

/** Takes the line apart with bash's rules of quoting. COMP_WORDS would have words end at each colon and equals sign, too. */
const READING = `
# Reads the line up to the cursor to \`words\` and the word in hand, \`cur\`. Of this, \`kept\` stands before the text that readline
# replaces, $1, and \`quote\` is the quote that is open there. Fails at what bash would have to expand or run to know it.
_workbook_mirror_read() {
  local line=\${COMP_LINE:0:COMP_POINT} before='' is_word='' is_apart='' char next
  local -i start=\${#line}-\${#1} begun=0 opened=0 index
  [[ $line == *"$1" ]] || return 1
  for ((index = 0; index <= \${#line}; index += 1)); do
    if [[ -z $quote ]] && ((index == start)); then kept=$cur is_apart=1; fi
    char=\${line:index:1} next=\${line:index+1:1}
    case $quote in
      \\') if [[ $char == \\' ]]; then quote=''; else cur+=$char; fi ;;
      \\") case $char$next in
        \\"*) quote='' ;;
        \\\`* | \\$[\\(\\{\\[]) return 1 ;;
        \\\\[\\$\\\`\\"\\\\]) cur+=$next index+=1 ;;
        \\\\) ;;
        *) cur+=$char ;;
      esac ;;
      *) case $char$next in
        [[:blank:]\\<\\>]*)
          [[ -z $is_word ]] || words+=("$cur")
          cur='' is_word='' begun=index+1
          continue ;;
        [\\'\\"]*) quote=$char before=$cur opened=index+1 ;;
        [\\\`\\;\\&\\|\\(\\)$'\\n']* | \\$[\\'\\"\\(\\{\\[]) return 1 ;;
        \\\\*) cur+=$next index+=1 ;;
        \\~ | \\~[/[:blank:]]) if [[ -n $is_word ]]; then cur+=$char; else cur=$HOME; fi ;;
        *) cur+=$char ;;
      esac
      is_word=1 ;;
    esac
  done
  if [[ -z $quote ]]; then
    [[ -n $is_apart ]]
  else
    # Readline replaces what stands behind an open quote. Who completes for another command, such as sudo, gives the word from its
    # beginning.
    kept=$before
    ((begun <= start && start <= opened))
  fi
}
`;

/** Everything that is offered passes here. */
const OFFERING = `
# Quotes a text for where it goes: \`quoted\`.
_workbook_mirror_quote() {
  local char
  local -i index
  quoted=$1
  # Most of thousands of names need no look at each character.
  [[ $1 == *[^[:alnum:]/._-]* ]] || return 0
  # Readline takes the open quote and one that the text begins with for one.
  if [[ -n $quote && $1 == [\\!$quote]* ]]; then quoted=$quote; else quoted=''; fi
  for ((index = 0; index < \${#1}; index += 1)); do
    char=\${1:index:1}
    case \${quote:-_}$char in
      _[[:alnum:]/._-] | ?[^[:ascii:]]) quoted+=$char ;;
      _* | \\"[\\$\\\`\\\\]) quoted+=\\\\$char ;;
      ?[\\!$quote]) quoted+=$quote\\\\$char$quote ;;
      *) quoted+=$char ;;
    esac
  done
}

# Offers those of the words that begin as the word in hand does, without what is said of them.
_workbook_mirror_offer() {
  local word quoted common
  # Readline's insert-completions takes an open quote away.
  [[ -z $quote || \${COMP_TYPE-} != 42 ]] || return 0
  for word in "$@"; do
    word=\${word%%$'\\t'*}
    [[ $word == "$cur"* && $word == "$kept"?* ]] || continue
    # Readline closes an open quote, but not where the text ends with one, as it would here.
    [[ -z $quote || $word != *[\\!$quote] ]] || continue
    word=\${word:\${#kept}}
    _workbook_mirror_quote "$word"
    COMPREPLY+=("$quoted")
    common=\${common-$word}
    while [[ $word != "$common"* ]]; do common=\${common%?}; done
  done
  # Of several, readline puts on the line what they have in common, which must not end within what stands for one character.
  case \${#COMPREPLY[@]}:\${COMP_TYPE-} in
    [01]:*) ;;
    *:9 | *:33 | *:64)
      _workbook_mirror_quote "$common"
      for word in "\${COMPREPLY[@]}"; do
        [[ $word == "$quoted"[$quote\\\\]* ]] || return 0
      done
      COMPREPLY+=("$quoted") ;;
  esac
}
`;
