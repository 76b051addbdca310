import { faults, testFaults } from './struck-stores.ts';

testFaults(faults.filter(([fault]) => fault === 'is stopped'));
