import { passGate, useOneThread } from './gate.ts';

// Loaded before a program that is to be traced.
useOneThread();
await passGate();
