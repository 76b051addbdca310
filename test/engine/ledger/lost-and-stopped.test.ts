import { faults, testFaults } from './struck-stores.ts';

testFaults(faults.slice(1));
