//! The two stores of the library keep what every store promises.

use std::sync::Arc;

use terret::store::{MemoryStore, Store};
use terret::testing::store::{UnderTest, conforms};

use crate::support::Home;

impl UnderTest for Home {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    fn put(&self, id: &str, log: &[u8]) {
        let path = self.store.log_path(id);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, log).unwrap();
    }

    fn bytes(&self, id: &str) -> Option<Vec<u8>> {
        std::fs::read(self.store.log_path(id)).ok()
    }
}

struct InMemory(MemoryStore);

impl UnderTest for InMemory {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.0.clone())
    }

    fn put(&self, id: &str, log: &[u8]) {
        self.0.put(id, log.to_vec());
    }

    fn bytes(&self, id: &str) -> Option<Vec<u8>> {
        self.0.bytes(id)
    }
}

#[tokio::test]
async fn files_keep_what_every_store_promises() {
    conforms(&Home::new()).await.unwrap();
}

#[tokio::test]
async fn memory_keeps_what_every_store_promises() {
    conforms(&InMemory(MemoryStore::default())).await.unwrap();
}
