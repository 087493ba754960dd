import { type CommandNode, everyNode, type Flag, flagsByMeaning, type Value } from './tree.ts';

/**
 * A completion for fish 3 or later (fish's `complete`), a file in its `completions` folder.
 * @param root the program
 */
export function fishCompletion(root: CommandNode): string {
  const flags = flagsByMeaning(root);
  const valued = new Set(flags.flatMap(({ flag }) => (flag.value === null ? [] : namesOf(flag))));
  const paths = everyNode(root).flatMap(({ path }) => (path === '' ? [] : [quoted(path)]));
  return `# Completion of ${root.name} for fish, written by \`${root.name} completion fish\`.

# The words that lead to the command in hand.
function __workbook_mirror_path
    set -l path
    set -l skips 0
    for word in (commandline -opc)[2..]
        if test $skips = 1
            set skips 0
            continue
        end
        switch $word
            case --
                break
            case ${[...valued].join(' ')}
                set skips 1
            case '-*'
            case '*'
                set -l longer (string join ' ' -- $path $word)
                contains -- $longer ${paths.join(' ')}
                and set path $longer
        end
    end
    echo "$path"
end

function __workbook_mirror_at
    contains -- (__workbook_mirror_path) $argv
end

function __workbook_mirror_names
    set -l places
    set -l words (commandline -opc)
    for index in (seq (count $words))
        switch $words[$index]
            case --config --directory --serve-directory
                set -l place $words[(math $index + 1)]
                string match -qr '^~(/|$)' -- $place
                and set place $HOME(string sub -s 2 -- $place)
                set -a places $words[$index]=$place
            case '--config=*' '--directory=*' '--serve-directory=*'
                set -a places $words[$index]
        end
    end
    ${root.name} completion $argv[1] $places 2>/dev/null
end

complete -c ${root.name} -f
${everyNode(root)
  .flatMap((node) => argumentLines(root.name, node))
  .join('\n')}
${flags.map(({ flag, paths }) => flagLine(root.name, flag, paths)).join('\n')}
`;
}

function namesOf({ long, short }: Flag): string[] {
  return short === undefined ? [long] : [short, long];
}

function at(paths: readonly string[]): string {
  return `-n ${quoted(`__workbook_mirror_at ${paths.map((path) => `"${path}"`).join(' ')}`)}`;
}

function argumentLines(program: string, { path, argument, children }: CommandNode): string[] {
  if (children.length > 0) {
    return children.map(
      ({ name, summary }) => `complete -c ${program} ${at([path])} -a ${quoted(name)} -d ${quoted(summary)}`,
    );
  }
  const action = argument === null ? '' : actionOf(argument);
  return action === '' ? [] : [`complete -c ${program} ${at([path])} ${action}`];
}

function flagLine(
  program: string,
  { long, short, description, value }: Flag,
  paths: readonly string[],
): string {
  const names = `${short === undefined ? '' : `-s ${short.slice(1)} `}-l ${long.slice(2)}`;
  const behind = value === null ? '' : ` -r ${actionOf(value)}`.trimEnd();
  return `complete -c ${program} ${at(paths)} ${names}${behind} -d ${quoted(description)}`;
}

function actionOf(value: Value): string {
  switch (value.kind) {
    case 'file':
      return '-F';
    case 'folder':
      return `-f -a ${quoted('(__fish_complete_directories (commandline -ct))')}`;
    case 'target':
      return `-f -a ${quoted('(__workbook_mirror_names targets)')}`;
    case 'kept':
      return `-f -a ${quoted('(__workbook_mirror_names history)')}`;
    case 'key':
      return `-f -a ${quoted('(__workbook_mirror_names keys)')}`;
    case 'choice':
      return `-f -a ${quoted(value.choices.join(' '))}`;
    case 'text':
      return '-f';
  }
}

/** A word in single quotes, within which fish takes a backslash and a quote for something else. */
function quoted(text: string): string {
  return `'${text.replaceAll(/[\\']/g, String.raw`\$&`)}'`;
}
