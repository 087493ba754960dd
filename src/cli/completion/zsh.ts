import { type CommandNode, everyNode, type Flag, type Value } from './tree.ts';

/**
 * A completion for zsh (zshcompsys(1)): a file of the name `_workbook-mirror` in a folder of `fpath`, or sourced after
 * `compinit`.
 * @param root the program
 */
export function zshCompletion(root: CommandNode): string {
  return `#compdef ${root.name}
# Completion of ${root.name} for zsh, written by \`${root.name} completion zsh\`.

_${root.name}_names() {
  local -a places found
  local flag place
  for flag in --config --directory --serve-directory; do
    (( \${+opt_args[$flag]} )) || continue
    # _arguments puts a backslash before a colon and a backslash of what was typed.
    place=\${\${opt_args[$flag]//\\\\:/:}//\\\\\\\\/\\\\}
    [[ $place != '~' && $place != '~/'* ]] || place=\${(q)HOME}\${place#\\~}
    places+=("$flag=\${(Q)place}")
  done
  found=(\${(f)"$(${root.name} completion $argv[-1] $places 2>/dev/null)"})
  # What stands before the last argument is what _arguments has for compadd.
  compadd "\${(@)argv[1,-2]}" -a found
}
${everyNode(root)
  .reverse()
  .map((node) => functionOf(root.name, node))
  .join('')}
if [ "$funcstack[1]" = "_${root.name}" ]; then
  _${root.name} "$@"
else
  compdef _${root.name} ${root.name}
fi
`;
}

function functionName(program: string, path: string): string {
  return `_${[program, ...path.split(' ').filter((word) => word !== '')].join('__')}`;
}

function functionOf(program: string, node: CommandNode): string {
  const specs = [...node.flags.map(flagSpec), ...argumentSpecs(program, node)];
  const call = `_arguments ${node.children.length > 0 ? '-C ' : ''}-s -S ${['', ...specs].join(' \\\n    ')}`;
  const name = functionName(program, node.path);
  if (node.children.length === 0) return `\n${name}() {\n  ${call}\n}\n`;
  const commands = node.children.map(({ name, summary }) =>
    quoted(`${name.replaceAll(':', '\\:')}:${summary}`),
  );
  const cases = node.children.map(({ name, path }) => `${name}) ${functionName(program, path)} ;;`);
  return `
${name}() {
  local context state state_descr line
  typeset -A opt_args
  local -a commands=(
    ${commands.join('\n    ')}
  )
  ${call}
  case $state in
    command) _describe -t commands command commands ;;
    rest)
      case $words[1] in
        ${cases.join('\n        ')}
      esac ;;
  esac
}
`;
}

/** One flag as `_arguments` takes it: what it excludes, its names, what it means, what stands behind it. */
function flagSpec({ long, short, description, value }: Flag): string {
  const meaning = `[${description.replaceAll(/[[\]\\]/g, String.raw`\$&`)}]`;
  const behind = value === null ? '' : `:${value.kind}:${actionOf(value)}`;
  const text = `${meaning}${behind}`;
  if (short === undefined) return quoted(`${long}${value === null ? '' : '='}${text}`);
  return `${quoted(`(${short} ${long})`)}{${short},${long}${value === null ? '' : '='}}${quoted(text)}`;
}

function argumentSpecs(program: string, { argument, isRepeated, children }: CommandNode): string[] {
  if (children.length > 0) return [quoted('1:command:->command'), quoted('*::argument:->rest')];
  if (argument === null) return [];
  return [quoted(`${isRepeated ? '*' : '1'}:${argument.kind}:${actionOf(argument, program)}`)];
}

function actionOf(value: Value, program = 'workbook-mirror'): string {
  switch (value.kind) {
    case 'file':
      return '_files';
    case 'folder':
      return '_files -/';
    case 'target':
      return `_${program}_names targets`;
    case 'kept':
      return `_${program}_names history`;
    case 'key':
      return `_${program}_names keys`;
    case 'choice':
      return `(${value.choices.join(' ')})`;
    case 'text':
      return ' ';
  }
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}
