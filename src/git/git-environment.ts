import { devNull } from 'node:os';

/** Settings that a repository, a user or a machine could otherwise bring in. */
export const FIXED_SETTINGS = [
  'core.quotePath=false',
  `core.attributesFile=${devNull}`,
  `core.hooksPath=${devNull}`,
  'gc.auto=0',
  'maintenance.auto=false',
].flatMap((setting) => ['-c', setting]);

/** The environment of every git program: the process's own without anything that steers git or its language. */
export function cleanEnvironment(added: Readonly<Record<string, string>> = {}): NodeJS.ProcessEnv {
  const inherited = Object.entries(process.env).filter(([name]) => !/^(?:GIT_|LC_|LANG)/.test(name));
  return {
    ...Object.fromEntries(inherited),
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_CONFIG_GLOBAL: devNull,
    GIT_ATTR_NOSYSTEM: '1',
    GIT_TERMINAL_PROMPT: '0',
    // A path is a name, never a pattern.
    GIT_LITERAL_PATHSPECS: '1',
    // refs/replace of a mirrored repository would give other bytes than the committed ones.
    GIT_NO_REPLACE_OBJECTS: '1',
    GIT_ALLOW_PROTOCOL: 'file:git:http:https:ssh',
    LC_ALL: 'C',
    // A zip holds local times.
    TZ: 'UTC',
    ...added,
  };
}
