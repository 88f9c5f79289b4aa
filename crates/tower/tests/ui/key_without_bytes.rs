//! A key that has no bytes.

use slidegate_tower::KeyBy;

#[derive(Clone)]
struct User {
    id: Id,
}

#[derive(Clone)]
struct Id(u64);

fn main() {
    let _extension = KeyBy::extension(|user: &User| user.id.clone());
    let _function = KeyBy::with(|head| head.extensions().get::<User>().map(|user| user.id.0 as f64));
}
