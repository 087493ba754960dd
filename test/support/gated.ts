import { passGate, useOneThread } from './gate.ts';

// Loaded before a traced program.
useOneThread();
await passGate();
