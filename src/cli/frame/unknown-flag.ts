import type { Command } from 'commander';

import { fileSettingOf, kebabName, settingDescriptors } from '../../config/descriptors.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { ownCommand } from '../../lib/text/own-command.ts';

/**
 * Explains a flag that commander does not know where it is: one of a secret, or one before the command. Repeats no value, as that
 * may be a secret.
 * @param args the command line behind the program's name
 * @param flag without a value
 * @returns null for any other flag
 */
export function unknownFlagError(
  program: Command,
  args: readonly string[],
  flag: string,
): MirrorError | null {
  const setting = settingDescriptors.find(({ name, secret }) => secret && `--${kebabName(name)}` === flag);
  if (setting !== undefined) {
    return new MirrorError(
      'usage.invalid',
      `There is no flag ${flag}: everybody on this machine can read the flags of a program.`,
      {
        hint: `Give a file that holds the secret, ${fileSettingOf(setting.name)?.flag ?? ''} FILE, or set the variable ${setting.environmentVariable}.`,
      },
    );
  }
  const group = program.commands.find((command) => args.includes(command.name()));
  if (group === undefined || args[0]?.startsWith('-') !== true) return null;
  const at = args.indexOf(group.name());
  const child = group.commands.find((command) => command.name() === args[at + 1]);
  const words = [group.name(), ...(child === undefined ? [] : [child.name()])];
  return new MirrorError(
    'usage.invalid',
    `The flag ${flag} stands before the command: flags belong behind it.`,
    {
      hint: `Write \`${ownCommand(`${words.join(' ')} ${flag} …`)}\`.`,
    },
  );
}
