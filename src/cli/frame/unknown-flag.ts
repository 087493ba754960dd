import type { Command } from 'commander';

import { fileSettingOf, kebabName, settingDescriptors } from '../../config/descriptors.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { ownCommand } from '../../lib/text/own-command.ts';

/**
 * Explains a flag that commander does not know where it is: one of a secret, or one before the command. No value is repeated: it may
 * be a secret.
 * @param args the command line behind the program's name
 * @param message what commander says of the flag
 * @returns null for any other flag
 */
export function unknownFlagError(
  program: Command,
  args: readonly string[],
  message: string,
): MirrorError | null {
  const [, flag = ''] = /unknown option '(-[^=']*)/.exec(message) ?? [];
  const setting = settingDescriptors.find(({ name, secret }) => secret && `--${kebabName(name)}` === flag);
  if (setting !== undefined) {
    return new MirrorError(
      'usage.invalid',
      `There is no flag ${flag}: everybody on this machine can read the flags of a program.`,
      {
        hint:
          `Give the path of a file that holds the secret, ${fileSettingOf(setting.name)?.flag ?? ''} FILE,` +
          ` or set the variable ${setting.environmentVariable}.`,
      },
    );
  }
  const words = commandBehindFlags(program, args);
  if (words === null || !args.slice(0, args.indexOf(words[0])).some((word) => nameOf(word) === flag))
    return null;
  return new MirrorError(
    'usage.invalid',
    `The flag ${flag} stands before the command: flags belong behind it.`,
    {
      hint: `Write \`${ownCommand([...words, ...flagsIn(args, words[0])].join(' '))}\`.`,
    },
  );
}

/** The words of a command that flags stand before, such as `config check`; null where there is none. */
function commandBehindFlags(
  program: Command,
  args: readonly string[],
): readonly [string, ...string[]] | null {
  if (args[0]?.startsWith('-') !== true) return null;
  const at = args.findIndex((word) => program.commands.some((command) => command.name() === word));
  const group = program.commands.find((command) => command.name() === args[at]);
  if (group === undefined) return null;
  const below = group.commands.find((command) => command.name() === args[at + 1]);
  return [group.name(), ...(below === undefined ? [] : [below.name()])];
}

function nameOf(word: string): string {
  return word.replace(/=[^]*$/, '');
}

/** The flags of a command line, with a sign in the place of each value. */
function flagsIn(args: readonly string[], command: string): string[] {
  return args.flatMap((word, index) => {
    if (!word.startsWith('-')) return [];
    const next = args[index + 1] ?? '-';
    const hasValue = word.includes('=') || !(next.startsWith('-') || next === command);
    return [hasValue ? `${nameOf(word)} …` : word];
  });
}
