import type { SettingsFor } from '../../config/schema.ts';
import { cleanEnvironment } from './environment.ts';
import { findProgram } from './find-program.ts';
import { askGate } from './gate.ts';
import type { HookCommand, HookSurroundings } from './ports.ts';
import { MirrorError, toMirrorError } from '../../lib/errors/errors.ts';
import { scrub } from '../../lib/text/scrub.ts';
import { layoutOf, manifestPath, treePath } from '../../mirror/store/layout.ts';
import type { PassContext } from '../../mirror/pass/context.ts';
import { secretsOf } from '../settings/secrets-of.ts';

/** The command of one of the two settings; null for none. */
export function commandOf(
  { hooks }: SettingsFor<never>,
  name: 'afterPublish' | 'beforePublish',
): HookCommand | null {
  const words = hooks[name];
  return words === undefined ? null : { words, timeoutMs: hooks.timeout };
}

/** What commands are told of the mirror. @param current the settings in force */
export function surroundingsOf(current: () => SettingsFor<'directory'>): HookSurroundings {
  const layout = layoutOf(current().directory);
  return {
    places: {
      directory: layout.root,
      treeOf: (target) => treePath(layout, target),
      manifestOf: (target) => manifestPath(layout, target),
    },
    environment: process.env,
    scrub: (text) => scrub(text, secretsOf(current())),
  };
}

/** Makes sure that the commands of the settings can be run. @throws MirrorError `settings.invalid` */
export async function checkCommands(settings: SettingsFor<never>): Promise<void> {
  const { PATH: searchPath = '' } = cleanEnvironment(process.env);
  for (const name of ['afterPublish', 'beforePublish'] as const) {
    const [program] = settings.hooks[name] ?? [];
    if (program === undefined) continue;
    try {
      await findProgram(program, searchPath);
    } catch (error) {
      const { message, hint } = toMirrorError(error);
      throw new MirrorError('settings.invalid', `hooks.${name}: ${message}`, {
        cause: error,
        ...(hint === undefined ? {} : { hint }),
      });
    }
  }
}

/**
 * Who looks at new states before they are published, as the settings want it; null for nobody.
 * @param onProgress called while the command runs
 */
export function publishGateOf(
  settings: SettingsFor<'directory'>,
  onProgress: () => void,
): PassContext['beforePublish'] {
  const command = commandOf(settings, 'beforePublish');
  if (command === null) return null;
  const surroundings = surroundingsOf(() => settings);
  return (state, signal) => askGate(surroundings, command, state, onProgress, signal);
}
