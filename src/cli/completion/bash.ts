import { type CommandNode, everyNode, type Flag, flagsByMeaning, type Value } from './tree.ts';

/** Flags that say where the mirror, or the service, is: a completion of names has to know them. */
const PLACES = ['--config', '--directory', '--serve-directory'];

/**
 * A completion for bash 4 or later (bash(1), "Programmable Completion"), to be sourced or put where bash-completion finds it.
 * It neither expands nor runs anything that is on the line, and what it offers is plain text to bash, whatever a name holds.
 * @param root the program
 */
export function bashCompletion(root: CommandNode): string {
  return `# Completion of ${root.name} for bash 4 or later, written by \`${root.name} completion bash\`.
${READING}${OFFERING}
_workbook_mirror_names() {
  local -a found
  mapfile -t found < <(${root.name} completion "$1" "\${places[@]}" 2>/dev/null)
  _workbook_mirror_offer "\${found[@]}"
}

_workbook_mirror() {
  local cur='' quote='' kept='' path='' flag='' lead='' is_bare='' word
  local -a words=() places=()
  COMPREPLY=()
  _workbook_mirror_read "$2" || return 0
${walk(root)}
${offers(root)}
}

complete -F _workbook_mirror ${root.name}
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

# Offers those of the words that begin as the word in hand does.
_workbook_mirror_offer() {
  local word quoted common
  # Readline's insert-completions takes an open quote away.
  [[ -z $quote || \${COMP_TYPE-} != 42 ]] || return 0
  for word in "$@"; do
    word=$lead$word
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

/** Goes over the words before the one in hand, to the command in `path` and the flag in `flag` that waits for its value. */
function walk(root: CommandNode): string {
  const valued = flagsByMeaning(root).flatMap(({ flag }) => (flag.value === null ? [] : [flag]));
  const commands = everyNode(root).filter(({ path }) => path !== '');
  return `  for word in "\${words[@]:1}"; do
    if [[ -n $flag ]]; then
      case $flag in ${PLACES.join(' | ')}) places+=("$flag=$word") ;; esac
      flag=''
      continue
    fi
    case $word in
      --) is_bare=1 && break ;;
      ${PLACES.map((flag) => `${flag}=*`).join(' | ')}) places+=("$word") ;;
      ${alternatives(valued)}) flag=$word ;;
      -*) ;;
      *) case "$path/$word" in
${commands.map(({ path }) => `        ${shellWord(slashed(path))}) path=${shellWord(slashed(path))} ;;`).join('\n')}
      esac ;;
    esac
  done
  if [[ -z $flag$is_bare && $cur == --*=* ]]; then flag=\${cur%%=*} lead=$flag=; fi`;
}

/** Offers what may stand there: the value of the flag, a flag, a command or an argument. */
function offers(root: CommandNode): string {
  const nodes = everyNode(root);
  return `  if [[ -n $flag ]]; then
    case $flag in
${flagCases(flagsByMeaning(root).map(({ flag }) => flag))}
    esac
    return
  fi
  if [[ $cur == -* && -z $is_bare ]]; then
    case $path in
${nodes.map(flagWords).join('\n')}
    esac
    return
  fi
  case $path in
${nodes.flatMap(argumentCase).join('\n')}
  esac`;
}

function slashed(path: string): string {
  return path === '' ? '' : `/${path.replaceAll(' ', '/')}`;
}

function alternatives(flags: readonly Flag[]): string {
  return [
    ...new Set(flags.flatMap(({ long, short }) => (short === undefined ? [long] : [short, long]))),
  ].join('|');
}

function flagCases(flags: readonly Flag[]): string {
  return flags
    .flatMap((flag) => {
      const action = flag.value === null ? undefined : actionOf(flag.value);
      return action === undefined ? [] : [`      ${alternatives([flag])}) ${action} ;;`];
    })
    .join('\n');
}

function flagWords({ path, flags }: CommandNode): string {
  const words = flags.flatMap(({ long, short }) => (short === undefined ? [long] : [short, long]));
  return `      ${shellWord(slashed(path))}) ${offer(words)} ;;`;
}

function argumentCase({ path, argument, children }: CommandNode): string[] {
  const action =
    children.length > 0
      ? offer(children.map(({ name }) => name))
      : argument === null
        ? undefined
        : actionOf(argument);
  return action === undefined ? [] : [`    ${shellWord(slashed(path))}) ${action} ;;`];
}

function actionOf(value: Value): string | undefined {
  switch (value.kind) {
    case 'file':
      return 'compopt -o default';
    case 'folder':
      return 'compopt -o dirnames';
    case 'target':
      return '_workbook_mirror_names targets';
    case 'kept':
      return '_workbook_mirror_names history';
    case 'key':
      return '_workbook_mirror_names keys';
    case 'choice':
      return offer(value.choices);
    case 'text':
      return undefined;
  }
}

function offer(words: readonly string[]): string {
  return `_workbook_mirror_offer ${words.map(shellWord).join(' ')}`;
}

/** A word in single quotes, within which a shell takes nothing but the next quote for anything else. */
function shellWord(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}
