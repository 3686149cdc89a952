-- A principal's runs that never started, by age: the oldest are forgotten.
CREATE INDEX promises_by_principal ON promises (principal, created);
