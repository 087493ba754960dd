import { type CommandNode, everyNode, type Flag, flagsByMeaning, type Value } from './tree.ts';

/** Flags that say where the mirror, or the service, is: a completion of names has to know them. */
const PLACES = '--config|--directory|--serve-directory';

/**
 * A completion for bash 4 or later (bash(1), "Programmable Completion"), to be sourced or put where bash-completion finds it.
 * @param root the program
 */
export function bashCompletion(root: CommandNode): string {
  return `# Completion of ${root.name} for bash 4 or later, written by \`${root.name} completion bash\`.
${helpers(root.name)}
_workbook_mirror() {
  local cur=\${COMP_WORDS[COMP_CWORD]}
  local path='' flag='' is_bare='' index word
  local -a places=()
  COMPREPLY=()
${walk(root)}
${offers(root)}
}

complete -F _workbook_mirror ${root.name}
`;
}

/** Functions that offer words, paths and names. Bash leaves it to them to quote what they offer. */
function helpers(program: string): string {
  return `
_workbook_mirror_words() {
  mapfile -t COMPREPLY < <(compgen -W "$1" -- "$cur")
}

_workbook_mirror_paths() {
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen "$1" -- "$cur")
}

_workbook_mirror_names() {
  local found is_quoted=''
  case $cur in
    [\\"\\']*) is_quoted=1 cur=\${cur:1} ;;
    *) cur=\${cur//\\\\/} ;;
  esac
  while IFS= read -r found; do
    [[ $found == "$cur"* ]] || continue
    [[ -n $is_quoted ]] || printf -v found %q "$found"
    COMPREPLY+=("$found")
  done < <(${program} completion "$1" "\${places[@]}" 2>/dev/null)
}
`;
}

/** Goes over the words before the one in hand, to the command in `path` and the flag in `flag` that waits for its value. */
function walk(root: CommandNode): string {
  const valued = flagsByMeaning(root).flatMap(({ flag }) => (flag.value === null ? [] : [flag]));
  const commands = everyNode(root).filter(({ path }) => path !== '');
  return `  for ((index = 1; index < COMP_CWORD; index += 1)); do
    word=\${COMP_WORDS[index]}
    # Bash has a word end at an equals sign.
    if [[ $word == = ]]; then continue; fi
    if [[ -n $flag ]]; then
      case $flag in ${PLACES}) word=\${word//\\\\/} places+=("$flag" "\${word/#\\~/$HOME}") ;; esac
      flag=''
      continue
    fi
    case $word in
      --) is_bare=1 && break ;;
      ${alternatives(valued)}) flag=$word ;;
      -*) ;;
      *) case "$path/$word" in
${commands.map(({ path }) => `        ${shellWord(slashed(path))}) path=${shellWord(slashed(path))} ;;`).join('\n')}
      esac ;;
    esac
  done
  [[ $cur != = ]] || cur=''`;
}

/** Offers what may stand there: the value of the flag, a flag, a command or an argument. */
function offers(root: CommandNode): string {
  const nodes = everyNode(root);
  return `  if [[ -n $flag && -z $is_bare ]]; then
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
  return `      ${shellWord(slashed(path))}) _workbook_mirror_words ${shellWord(words.join(' '))} ;;`;
}

function argumentCase({ path, argument, children }: CommandNode): string[] {
  const action =
    children.length > 0
      ? `_workbook_mirror_words ${shellWord(children.map(({ name }) => name).join(' '))}`
      : argument === null
        ? undefined
        : actionOf(argument);
  return action === undefined ? [] : [`    ${shellWord(slashed(path))}) ${action} ;;`];
}

function actionOf(value: Value): string | undefined {
  switch (value.kind) {
    case 'file':
      return '_workbook_mirror_paths -f';
    case 'folder':
      return '_workbook_mirror_paths -d';
    case 'target':
      return '_workbook_mirror_names targets';
    case 'kept':
      return '_workbook_mirror_names history';
    case 'key':
      return '_workbook_mirror_names keys';
    case 'choice':
      return `_workbook_mirror_words ${shellWord(value.choices.join(' '))}`;
    case 'text':
      return undefined;
  }
}

/** A word in single quotes, within which a shell takes nothing but the next quote for anything else. */
function shellWord(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}
