import type { Changes } from '../service/library.ts';

/**
 * Has somebody look after every upload and push, so that new versions are checked before anyone lists them.
 * @param look neither throws nor keeps the client waiting
 */
export function lookingAfter(changes: Changes, look: () => void): Changes {
  return {
    ...changes,
    async commit(...upload) {
      const commitId = await changes.commit(...upload);
      look();
      return commitId;
    },
    async *converse(...conversation) {
      try {
        yield* changes.converse(...conversation);
      } finally {
        const [, program] = conversation;
        if (program === 'git-receive-pack') look();
      }
    },
  };
}
